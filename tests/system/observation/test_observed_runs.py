"""What is shown of runs to those who watch: metrics, traces and logs of a server, its worker, and whoever starts runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.worker import Replayer

from clients.embedded.stack import StackAddresses
from clients.temporal import connect, ratchet_plugin
from tests.support.documents import ROOT
from tests.support.observed_runs import ANSWER, COLLECTOR_KEY, KEY, PROMPT, TRACE, Observed, observed_runs
from tests.support.watching import dashboard_expressions, metrics_in, rule_expressions, runbook
from workflows.metrics import METRICS, Metric
from workflows.optimization import OptimizationWorkflow
from workflows.trial import TrialWorkflow

COUNTED_BY_SERVERS = {"ratchet_event_lag_seconds"}
SHOWN_BY_PROMETHEUS_ITSELF = {"up"}


@pytest_asyncio.fixture(scope="module")
async def observed(unserved_stack: StackAddresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Observed]:
    async with observed_runs(unserved_stack, tmp_path_factory.mktemp("observed")) as found:
        yield found


def names_of(metric: Metric) -> set[str]:
    """What Prometheus reads of a metric."""
    return {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")} if metric.buckets else {metric.shown_as}


# -- metrics ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
async def test_every_metric_is_shown_with_the_labels_that_it_says(observed: Observed, metric: Metric) -> None:
    shown = observed.server if metric.shown_by == "servers of the page" else observed.worker
    assert names_of(metric) <= shown.names
    for label, values in metric.labels.items():
        found = set().union(*(shown.values(name, label) for name in names_of(metric)))
        assert found
        assert not values or found <= set(values)


async def test_what_is_counted_is_what_happened(observed: Observed) -> None:
    worker = observed.worker
    answered = worker.sum("ratchet_answers_total", target="chat", status="answered")
    assert answered >= 4
    assert worker.sum("ratchet_scores_total", status="scored") == answered
    assert worker.sum("ratchet_call_duration_seconds_count", call="chat", outcome="answered") == 2 * answered  # a judge each
    assert worker.sum("ratchet_call_duration_seconds_count", outcome="throttled") == 1
    assert worker.sum("ratchet_call_duration_seconds_count", outcome="refused") >= 1
    assert worker.sum("ratchet_tokens_total", direction="input") > worker.sum("ratchet_tokens_total", direction="unsplit") == 0
    assert worker.sum("ratchet_call_cost_sum") > 0
    assert worker.sum("ratchet_reservations_total", result="granted") >= answered
    assert worker.sum("ratchet_runs_begun_total", optimizer="refine") == 2
    assert worker.sum("ratchet_runs_ended_total", status="completed", reason="sample_budget") == 1
    assert worker.sum("ratchet_runs_ended_total", status="failed", reason="baseline_failed") == 1
    assert worker.sum("ratchet_rounds_total") >= 2
    assert worker.sum("ratchet_trials_total", status="completed") >= 1
    assert worker.sum("ratchet_lost_calls_total") == worker.sum("ratchet_answers_missing_total") == 0
    assert observed.server.sum("ratchet_event_lag_seconds_count") >= 3


async def test_a_model_has_a_label_of_its_own_where_the_operator_names_it(observed: Observed) -> None:
    assert observed.worker.values("ratchet_tokens_total", "model") == {"simulated-echo", "other"}
    assert observed.worker.values("ratchet_gate_wait_seconds_count", "model") == {"simulated-echo", "other"}


async def test_no_label_holds_the_id_of_a_run(observed: Observed) -> None:
    for scrape in (observed.worker, observed.server):
        told = {value for series in scrape.series for value in series.labels.values()}
        assert not {value for value in told if observed.run_id in value or observed.failed_run_id in value}


async def test_of_processes_that_want_one_port_each_takes_another_and_says_so(observed: Observed) -> None:
    others = [f"http://127.0.0.1:{observed.wanted_port + number}/metrics" for number in range(1, 10)]
    assert observed.shown_at["server"] == f"http://127.0.0.1:{observed.wanted_port}/metrics"
    assert observed.shown_at["worker"] in others
    warned = [line for line in observed.lines if line["level"] == "warning" and "another process has" in line["event"]]
    assert [line["metrics"] for line in warned] == [observed.shown_at["worker"]]


async def test_every_metric_that_alerts_dashboard_and_runbook_name_is_shown(observed: Observed) -> None:
    shown = observed.worker.names | observed.server.names | SHOWN_BY_PROMETHEUS_ITSELF
    named = {name for expression in (*rule_expressions(), *dashboard_expressions()) for name in metrics_in(expression)}
    assert len(named) > 20
    assert named - shown == set()
    families = shown | {name.rpartition("_")[0] for name in shown if name.endswith(("_bucket", "_sum", "_count"))}
    assert set(metrics_in(runbook())) - families == set()


# -- traces ----------------------------------------------------------------------------------------------------------------


async def test_a_trace_leads_from_the_command_to_the_call_of_the_model(observed: Observed) -> None:
    calls = [
        span for span in observed.collector.named("chat simulated-echo") if span.attributes["ratchet.run_id"] == observed.run_id
    ]
    assert observed.collector.above(calls[-1]) == [
        "StartWorkflow:OptimizationWorkflow",
        "RunWorkflow:OptimizationWorkflow",
        "StartChildWorkflow:TrialWorkflow",
        "RunWorkflow:TrialWorkflow",
        "StartActivity:evaluate_shard",
        "RunActivity:evaluate_shard",
        "chat simulated-echo",
    ]
    assert {span.service for span in calls} == {"ratchet"}
    assert len({span.trace_id for span in calls}) == 1


async def test_a_trace_of_a_caller_goes_on_through_the_run_that_it_starts(observed: Observed) -> None:
    [refused] = observed.collector.named("chat nobody")[:1]
    assert refused.trace_id == TRACE
    assert refused.attributes["ratchet.run_id"] == observed.failed_run_id
    assert observed.collector.above(refused)[:2] == ["POST /v1/private/optimizations", "StartWorkflow:OptimizationWorkflow"]
    assert refused.error
    assert refused.attributes["error.type"] == "http 404"


async def test_a_call_says_what_it_asked_for_and_what_it_took(observed: Observed) -> None:
    answered = [span for span in observed.collector.named("chat simulated-echo") if not span.error]
    told = answered[0].attributes
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.request.model"] == "simulated-echo"
    assert told["gen_ai.usage.input_tokens"] > 0
    assert told["gen_ai.usage.output_tokens"] > 0
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert told["server.address"] == "127.0.0.1"
    throttled = [span for span in observed.collector.spans if span.attributes.get("ratchet.outcome") == "throttled"]
    assert [span.attributes["error.type"] for span in throttled] == ["http 429"]


async def test_no_trace_repeats_a_prompt_an_answer_or_a_key(observed: Observed) -> None:
    sent = b"".join(observed.collector.bodies)
    for text in (PROMPT, ANSWER, KEY, COLLECTOR_KEY, "does not exist"):
        assert text.encode() not in sent
    failed = [span for span in observed.collector.spans if span.error and span.events]
    assert failed
    assert {name for span in failed for _, told in span.events for name in told} == {"exception.type"}
    assert {span.said for span in failed} == {""}
    assert observed.collector.keys == {COLLECTOR_KEY}


async def test_a_run_that_was_traced_goes_on_alike_where_it_is_not(observed: Observed, unserved_stack: StackAddresses) -> None:
    client = await connect(unserved_stack.temporal_address)
    history = await client.get_workflow_handle(observed.run_id).fetch_history()
    assert "_tracer-data" in str(history.events[0])
    await Replayer(workflows=[OptimizationWorkflow, TrialWorkflow], plugins=[ratchet_plugin()]).replay_workflow(history)


def test_a_run_that_was_not_traced_goes_on_alike_where_it_is() -> None:
    command = [sys.executable, "-m", "tests.support.traced_replay", "by_activity", "by_activity_cancelled_trial_1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_nobody_is_traced_for_looking(observed: Observed) -> None:
    names = {span.name.partition(":")[0] for span in observed.collector.spans}
    assert names.isdisjoint({"QueryWorkflow", "HandleQuery"})
    assert not [name for name in names if name.startswith("GET")]


# -- logs ------------------------------------------------------------------------------------------------------------------


async def test_lines_of_a_log_are_found_by_run_trial_and_trace(observed: Observed) -> None:
    calls = observed.collector.named("chat simulated-echo")
    traces = {span.trace_id for span in calls if span.attributes["ratchet.run_id"] == observed.run_id}
    lines = [line for line in observed.lines if line["run_id"] == observed.run_id]
    assert {line.get("trace_id") for line in lines} == traces
    done = [line for line in lines if line["event"] == "shard done"]
    spans = {span.span_id for span in observed.collector.named("RunActivity:evaluate_shard")}
    assert {line["span_id"] for line in done} <= spans
    assert all(line["trial_id"] == line["workflow_id"] and line["attempt"] == 1 for line in done)


async def test_no_log_repeats_a_key(observed: Observed) -> None:
    told = str(observed.lines)
    assert KEY not in told
    assert COLLECTOR_KEY not in told
