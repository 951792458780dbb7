"""Every decision follows from the answers: means, scores, the best of a round and of the run, verdicts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from tests.system.soak.recorded_history import History, Row, Violation, same


def scores_follow_from_answers(history: History) -> Iterator[Violation]:
    """Each sample's mean is that of its stored scores, and the trial's score is the weighted mean of those."""
    runs = {run["run_id"]: run for run in history.tables["runs"]}
    weights = {(row["dataset_id"], row["item_hash"]): row["weight"] for row in history.tables["samples"]}
    places: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for row in history.tables["suite_samples"]:
        places[row["run_id"], row["split"]][row["position"]] = row["item_hash"]
    values = _values(history, runs)
    for trial in history.tables["trials"]:
        run = runs[trial["run_id"]]
        if trial["status"] != "completed" or trial["sample_means"] is None:
            continue
        drawn, first = places[trial["run_id"], trial["split"]], trial["first_replicate"]
        replicates = range(first, first + trial["replicates"])
        weighted = []
        for position, told in enumerate(trial["sample_means"]):
            if told is None:
                continue
            item = drawn.get(position)
            found = [v for r in replicates if (v := values.get((trial["run_id"], trial["config_hash"], item, r))) is not None]
            mean = math.fsum(found) / len(found) if found else None
            if not same(mean, told) and not trial["exhausted"]:
                yield Violation(
                    "mean does not follow",
                    trial["run_id"],
                    f"{trial['trial_id']} sample {position}: {told} is told, {mean} follows",
                )
            weighted.append((weights[run["dataset_id"], item], told))
        if weighted:
            score = math.fsum(w * v for w, v in weighted) / math.fsum(w for w, _ in weighted)
            if not same(score, trial["score"]):
                told = f"{trial['trial_id']}: {trial['score']} is told, {score} follows"
                yield Violation("score does not follow", trial["run_id"], told)


def _characters(configuration: Row) -> int:
    """How long its texts are: of two with the same score, the shorter one may take the place of the other."""
    return sum(len(value) for value in configuration.values() if isinstance(value, str))


def best_follows_from_scores(history: History) -> Iterator[Violation]:
    """The best of every round, the best so far and the run's winner have the scores of their trials, and are the best."""
    trials = history.of_run("trials")
    written = {row["config_hash"]: _characters(row["configuration"]) for row in history.tables["overlays"]}
    for run in history.tables["runs"]:
        sign = 1.0 if run["direction"] == "maximize" else -1.0
        done = [t for t in trials[run["run_id"]] if t["status"] == "completed" and t["purpose"] in {"baseline", "candidate"}]
        scores = {trial["candidate_id"]: trial["score"] for trial in done}
        accepted = {t["candidate_id"]: (t["judged"] or {}).get("accepted", True) for t in done}
        asks_for_verdict = run["spec"].get("judgement", {}).get("accept", "score") in {"better", "not_worse"}
        lengths = {trial["candidate_id"]: written[trial["config_hash"]] for trial in done}
        before: Row | None = None
        for row in sorted(history.of_run("rounds")[run["run_id"]], key=lambda one: int(one["round"])):
            of_round = [t["score"] * sign for t in done if t["round"] == row["round"]]
            if of_round and row["best_score"] is not None and not same(max(of_round), row["best_score"] * sign):
                told = f"round {row['round']}: {row['best_score']} is told as its best, {max(of_round) * sign} follows"
                yield Violation("best of a round", run["run_id"], told)
            for who, score in (("best_candidate_id", "best_score"), ("best_so_far_id", "best_so_far")):
                if row[who] in scores and not same(scores[row[who]], row[score]):
                    told = f"round {row['round']}: {row[score]} is told as {score}, {row[who]} has {scores[row[who]]}"
                    yield Violation("best of a round", run["run_id"], told)
            if before is not None and row["best_so_far_id"] != before["best_so_far_id"] is not None:
                shorter = lengths.get(row["best_so_far_id"], 0) < lengths.get(before["best_so_far_id"], 0)
                no_better = row["best_so_far"] * sign <= before["best_so_far"] * sign
                if no_better and not (shorter and same(row["best_so_far"], before["best_so_far"])):
                    told = f"round {row['round']}: {row['best_so_far']} replaced {before['best_so_far']}"
                    yield Violation("best replaced by no better", run["run_id"], told)
                if asks_for_verdict and not accepted.get(row["best_so_far_id"], True):
                    told = f"round {row['round']}: {row['best_so_far_id']} became the best without a verdict for it"
                    yield Violation("best without verdict", run["run_id"], told)
            before = row
        best, baseline = run["best_candidate_id"], run["baseline_candidate_id"]
        if best in scores and not same(scores[best], run["best_score"]):
            yield Violation("winner", run["run_id"], f"{run['best_score']} is told, {best} has {scores[best]}")
        if baseline in scores and not same(scores[baseline], run["baseline_score"]):
            yield Violation("baseline", run["run_id"], f"{run['baseline_score']} is told, {scores[baseline]} follows")
        if best != baseline and best in scores and baseline in scores and scores[best] * sign < scores[baseline] * sign:
            yield Violation("winner", run["run_id"], f"{best} with {scores[best]} won over the baseline's {scores[baseline]}")


def verdicts_follow_from_means(history: History) -> Iterator[Violation]:
    """Who is called better has the better mean over the samples that both were measured on; likewise worse."""
    runs = {run["run_id"]: run for run in history.tables["runs"]}
    measured = {
        (t["run_id"], t["split"], t["candidate_id"]): t["sample_means"]
        for t in history.tables["trials"]
        if t["purpose"] in {"baseline", "candidate"} and t["sample_means"]
    }
    for trial in history.tables["trials"]:
        judged = trial["judged"] or {}
        reference = measured.get((trial["run_id"], trial["split"], judged.get("reference")))
        if judged.get("verdict") not in {"better", "worse"} or reference is None or not trial["sample_means"]:
            continue
        if trial["purpose"] != "candidate":
            continue
        pairs = [
            (own, other)
            for own, other in zip(trial["sample_means"], reference, strict=False)
            if own is not None and other is not None
        ]
        sign = 1.0 if runs[trial["run_id"]]["direction"] == "maximize" else -1.0
        difference = sign * math.fsum(own - other for own, other in pairs)
        if pairs and (difference > 0) != (judged["verdict"] == "better"):
            told = f"{trial['trial_id']} is {judged['verdict']} by {difference / len(pairs):g} over {len(pairs)} samples"
            yield Violation("verdict does not follow", trial["run_id"], told)


def _values(history: History, runs: dict[str, Row]) -> dict[tuple[str, str, str | None, int], float]:
    """What every answer adds to its run's objective: its score, or the worst where it failed."""
    scorers = {(row["run_id"], row["scorer"]) for row in history.tables["suites"]}
    targets = {(row["run_id"], row["target"]) for row in history.tables["suites"]}
    of_answer: dict[int, list[Row]] = defaultdict(list)
    for row in history.tables["scores"]:
        of_answer[row["answer_id"]].append(row)
    found: dict[tuple[str, str, str | None, int], float] = {}
    for answer in history.tables["answers"]:
        run = runs.get(answer["run_id"])
        if run is None or (run["run_id"], answer["target"]) not in targets:
            continue
        objective = run["spec"]["objective"]
        worst = objective.get("worst")
        failed = (0.0 if run["direction"] == "maximize" else 1.0) if worst is None else worst
        for score in of_answer[answer["answer_id"]]:
            if (run["run_id"], score["scorer"]) not in scorers or score["fault"] == "scorer":
                continue
            key = run["run_id"], answer["config_hash"], answer["item_hash"], answer["replicate"]
            if answer["status"] == "failed" or score["fault"] == "answer":
                found[key] = failed
            elif objective["metric"] in score["scores"]:
                found[key] = score["scores"][objective["metric"]]
    return found
