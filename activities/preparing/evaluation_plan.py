"""What a run measures with: its splits, drawn by the seed, and the suite of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from activities.datasets import DatasetError, draw_splits
from activities.datasets.given_splits import GivenSplits
from activities.scorers.rubric import REPAIR
from ratchet._formats.canonical import content_hash
from store.write.suites import DrawnSuite
from workflows.model.run.contract import PrepareInput
from workflows.model.spec.extensions.named_plugins import NamedPlugin
from workflows.model.spec.extensions.scorer_options import placed_scorers
from workflows.model.spec.request import OptimizationRequest
from workflows.model.suite import EvaluationSuite, LeftOut
from workflows.model.trial import Split
from workflows.rules.scoring.clusters import Clusters, gathered, same_as
from workflows.rules.scoring.judge_messages import INSTRUCTIONS
from workflows.rules.spec.default_splits import splits_of
from workflows.rules.spec.prompt_factors import publishes_its_prompt, template_of

LENGTH_OF_FINGERPRINT: Final = 32
"""Hexadecimal digits. Every answer and every score is stored with one."""


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """The suites of a run: one to search with, and others for samples that candidates are not scored on."""

    search: DrawnSuite
    test: DrawnSuite | None
    """Held back for the confirmation."""
    train: DrawnSuite | None
    """To learn from, when there are validation samples to score on."""

    @property
    def suites(self) -> Iterator[DrawnSuite]:
        """All of them."""
        return (drawn for drawn in (self.search, self.test, self.train) if drawn is not None)

    @property
    def sizes(self) -> dict[Split, int]:
        """How many samples each has."""
        return {drawn.suite.split: drawn.suite.samples for drawn in self.suites}

    @property
    def counting(self) -> dict[Split, int]:
        """How many samples of each count by themselves."""
        return {drawn.suite.split: drawn.suite.samples - len(drawn.suite.same_as) for drawn in self.suites}

    @property
    def test_samples(self) -> int:
        """How many are held back."""
        return self.test.suite.samples if self.test else 0


def plan_evaluation(
    prepare: PrepareInput,
    dataset_id: str,
    item_hashes: Sequence[str],
    strata: Sequence[str] | None = None,
    clusters: Clusters | None = None,
    given: GivenSplits | None = None,
) -> EvaluationPlan:
    """Draw the splits, unless they are given, and describe what each is measured with."""
    spec = prepare.request
    if given is None:
        shares = splits_of(spec, len(item_hashes) if clusters is None else clusters.count)
        splits = draw_splits(item_hashes, shares, spec.seed, strata, clusters)
    else:
        splits = given.members
    drawn = {split: hashes[: spec.samples_per_trial] for split, hashes in splits.items()}
    searchable = [split for split in (Split.VALIDATION, Split.TRAIN, Split.ALL) if drawn.get(split)]
    if not searchable:
        fix = "add samples or raise the shares" if given is None else "give train or validation samples, too"
        raise DatasetError(f"dataset.splits: no sample is left to score candidates on; {fix}")
    merged = clusters is not None and clusters.merge
    first_of = dict(zip(item_hashes, clusters.first, strict=True)) if clusters is not None and merged else {}

    def measured(split: Split, hashes: Sequence[str]) -> DrawnSuite:
        together = same_as(hashes, first_of) if first_of else {}
        return _suite(prepare, dataset_id, split, hashes, together, given.left_out.get(split) if given is not None else None)

    def other(split: Split) -> DrawnSuite | None:
        hashes = drawn.get(split)
        return measured(split, hashes) if hashes and split is not searchable[0] else None

    searched = drawn[searchable[0]]
    if first_of and spec.judgement.racing is not None:
        searched = gathered(searched, first_of)  # a look sees whole clusters, all but the last
    return EvaluationPlan(measured(searchable[0], searched), other(Split.TEST), other(Split.TRAIN))


def _suite(
    prepare: PrepareInput,
    dataset_id: str,
    split: Split,
    hashes: Sequence[str],
    together: Mapping[int, int],
    left_out: LeftOut | None,
) -> DrawnSuite:
    spec = prepare.request
    scorers = [scorer.model_dump(mode="json", by_alias=True) for scorer in spec.scorers]
    suite_id = content_hash({"dataset": dataset_id, "split": split.value, "samples": list(hashes), "scorers": scorers})
    suite = EvaluationSuite(
        run_id=prepare.run_id,
        split=split,
        suite_id=suite_id,
        dataset_id=dataset_id,
        samples=len(hashes),
        target_fingerprint=target_fingerprint(spec, prepare.evaluators),
        scorer_fingerprint=scorer_fingerprint(spec, prepare.evaluators),
        target=spec.target,
        scorers=spec.scorers,
        objective=spec.objective,
        metric=spec.metric,
        same_as=dict(together),
        left_out=left_out,
        judgement=spec.judgement,
        prices=spec.prices,
        sample_timeout=spec.execution.sample_timeout,
        reuse=spec.reuse,
        retry_of=spec.retry_of,
        rescore_of=spec.optimizer.answers_of,
        parts_before=tuple(spec.optimizer.parts_before),
        priority=spec.execution.priority,
        rate_limits=spec.execution.rate_limits,
        experiment=spec.experiment,
        flags=spec.flags,
        prompt=template_of(spec),
        publishes_prompt=publishes_its_prompt(spec),
        baseline_hash=content_hash(spec.baseline),
        concurrent_samples_per_trial=spec.execution.concurrent_samples_per_trial,
        plugins={reference: source for reference, source in prepare.evaluators.items() if reference in _measuring(spec)},
    )
    return DrawnSuite(suite, hashes)


def target_fingerprint(spec: OptimizationRequest, plugins: Mapping[str, str]) -> str:
    """What an answer depends on beside the configuration and the sample: the target with its options and sources, how its
    prompt is put together, and the flags that it is told. Prices change what an answer cost, not the answer."""
    parts: dict[str, Any] = {
        "target": spec.target.model_dump(mode="json", by_alias=True, exclude={"at_most"}),
        "plugins": _sources(spec.target.plugins(), plugins),
    }
    template = template_of(spec)
    if template is not None:
        # What its parts say is in the configuration; how they are put together is not.
        put_together = [[part.kind, part.path, *([part.contract] if part.contract else [])] for part in template.sections]
        parts["prompt"] = {"name": template.name, "sections": put_together}
    if spec.flags:
        parts["flags"] = spec.flags
    return content_hash(parts)[:LENGTH_OF_FINGERPRINT]


def scorer_fingerprint(spec: OptimizationRequest, plugins: Mapping[str, str]) -> str:
    """What scores depend on beside the answer: the scorers with their options and sources. The objective is computed from
    scores, and is no part of it; nor are prices, unless what an answer cost is a score."""
    scorers = [scorer for _, scorer in placed_scorers(spec.scorers)]
    parts: dict[str, Any] = {
        "scorers": [scorer.model_dump(mode="json", by_alias=True) for scorer in spec.scorers],
        "plugins": _sources(_scoring(spec), plugins),
    }
    if any(scorer.is_judged for scorer in scorers):
        parts["judging"] = [INSTRUCTIONS, REPAIR]
    if any(scorer.depends_on_prices for scorer in scorers):
        parts["prices"] = {model: price.model_dump(mode="json") for model, price in spec.prices.items()}
    return content_hash(parts)[:LENGTH_OF_FINGERPRINT]


def _sources(named: Iterable[NamedPlugin], plugins: Mapping[str, str]) -> dict[str, str]:
    """Of the plug-ins that are named, what each is."""
    references = {plugin.ref for plugin in named}
    return {reference: source for reference, source in plugins.items() if reference in references}


def _scoring(spec: OptimizationRequest) -> list[NamedPlugin]:
    return [plugin for place, scorer in placed_scorers(spec.scorers) for plugin in scorer.plugins(place)]


def _measuring(spec: OptimizationRequest) -> set[str]:
    """The plug-ins that answer, score, or compute the objective."""
    named = {plugin.ref for plugin in (*spec.target.plugins(), *_scoring(spec))}
    return named | ({spec.objective.ref} if spec.objective.ref else set())
