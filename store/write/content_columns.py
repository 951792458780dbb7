"""Which columns hold contents, in which form, and what of each stays readable: all that `contents_of` writes, and prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from store.write.answers.outcomes import passes_in
from store.write.runs import readable_of_result, readable_of_spec
from store.write.suites import READ_BY_QUERIES

Form = Literal["text", "json", "jsonb", "bytea"]


@dataclass(frozen=True, slots=True)
class ContentColumn:
    """A column of contents."""

    name: str
    form: Form
    readable: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """What stays readable of a JSON object that is encrypted."""


@dataclass(frozen=True, slots=True)
class ContentTable:
    """A table that holds contents."""

    name: str
    columns: tuple[ContentColumn, ...]
    rows: str = "true"
    """Which of its rows do, in SQL."""


def _of(form: Form, *names: str) -> tuple[ContentColumn, ...]:
    return tuple(ContentColumn(name, form) for name in names)


def _named(*names: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda value: {name: value[name] for name in names if name in value}


CONTENT_TABLES: Final = (
    ContentTable("samples", _of("json", "input", "expected")),
    ContentTable("files", _of("bytea", "content")),
    ContentTable("overlays", _of("json", "configuration")),
    ContentTable(
        "runs",
        (
            ContentColumn("spec", "jsonb", readable_of_spec),
            ContentColumn("result", "jsonb", readable_of_result),
            *_of("jsonb", "first_look"),
            *_of("text", "message"),
        ),
    ),
    ContentTable("suites", (ContentColumn("body", "jsonb", _named(*READ_BY_QUERIES)),)),
    ContentTable("candidates", (*_of("text", "rationale"), ContentColumn("extra", "jsonb", _named("origin")))),
    ContentTable("trials", (*_of("text", "error"), ContentColumn("judged", "jsonb", _named("verdict", "kept")))),
    ContentTable("answers", (*_of("json", "output", "trace"), *_of("text", "error", "printed"))),
    ContentTable("scores", (ContentColumn("details", "jsonb", passes_in), *_of("text", "feedback", "error", "printed"))),
    ContentTable("turns", _of("json", "content")),
    ContentTable("tool_calls", _of("json", "result")),
    ContentTable("rounds", _of("jsonb", "extra", "record")),
    ContentTable("rejections", _of("text", "message")),
    ContentTable("proposals", (*_of("json", "new_values", "asked"), *_of("text", "rationale"))),
    ContentTable("proposed_configurations", _of("json", "configuration")),
    ContentTable("model_answers", (*_of("text", "answer"), *_of("json", "asked"))),
    ContentTable("batch_requests", _of("json", "reply")),
    ContentTable("events", (ContentColumn("payload", "jsonb", _named("candidate_id", "round")),)),
    ContentTable("marks", _of("text", "text"), rows="kind = 'note'"),
    ContentTable("label_questions", _of("text", "words")),
    ContentTable("releases", (*_of("jsonb", "changes"), *_of("json", "first_template"))),
    ContentTable("prompt_templates", _of("json", "template")),
    ContentTable("prompt_changes", (ContentColumn("state", "json", _named("temporary")),)),
)
