"""The child's side of bounded matching: regular expressions and JSON Schemas, which a hostile text can make run for ever, and
comparisons of texts, which would keep the worker from its other work.

Run by file name, so that it imports nothing of the worker and starts fast. One JSON array per line in, one JSON object out.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any


def search(pattern: str, text: str, full_match: bool) -> bool:
    """Whether the pattern is found."""
    compiled = re.compile(pattern)
    return bool(compiled.fullmatch(text) if full_match else compiled.search(text))


def extract(pattern: str, text: str) -> str | None:
    """What the pattern's first group matches, or all of it where it has none."""
    found = re.search(pattern, text)
    if found is None:
        return None
    group: str | None = found.group(1) if found.re.groups else found.group()
    return group


def schema_problem(schema: dict[str, Any], value: Any) -> str | None:
    """The first thing about a value that a schema does not accept."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    validator = validator_for(schema, default=Draft202012Validator)
    validator.check_schema(schema)
    # With a registry given, remote references are refused; without one, any URL that a schema names would be fetched.
    problem = next(iter(validator(schema, registry=REGISTRY).iter_errors(value)), None)
    return None if problem is None else f"{problem.json_path}: {problem.message}"


def levenshtein(text: str, reference: str) -> float:
    """1 minus edits over the length of the longer text."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_similarity(text, reference)


def rouge(text: str, reference: str, variant: str) -> float:
    """F-measure of what two texts have in common: words, pairs of words, or the longest sequence of words."""
    from rapidfuzz.distance import LCSseq

    given, expected = (re.findall(r"\w+", part.lower()) for part in (text, reference))
    if variant == "rougeL":
        return _f_measure(LCSseq.similarity(given, expected), len(given), len(expected))
    length = {"rouge1": 1, "rouge2": 2}[variant]
    ours, theirs = (Counter(zip(*(words[start:] for start in range(length)), strict=False)) for words in (given, expected))
    return _f_measure((ours & theirs).total(), ours.total(), theirs.total())


def _f_measure(common: int, given: int, expected: int) -> float:
    return 2 * common / (given + expected) if common else 0.0


def bleu(text: str, references: list[str], tokenize: str) -> float:
    """BLEU of one sentence, from 0 to 1."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise RuntimeError(
            "sacrebleu is not installed; install ratchet-optimizer[text-metrics] where the workers run"
        ) from None
    score: float = BLEU(tokenize=tokenize, effective_order=True).sentence_score(text, references).score
    return min(score / 100, 1.0)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "search": search,
    "extract": extract,
    "schema_problem": schema_problem,
    "levenshtein": levenshtein,
    "rouge": rouge,
    "bleu": bleu,
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        function, *arguments = json.loads(line)
        try:
            answer = {"result": _FUNCTIONS[function](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
