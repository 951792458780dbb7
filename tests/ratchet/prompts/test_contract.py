"""The contract of override stores, against every real backend."""

from __future__ import annotations

import asyncio

import pytest

from ratchet.prompts import (
    Change,
    FrozenChanged,
    InvalidOverride,
    Modification,
    Overrides,
    OverrideStore,
    PromptError,
    StaleBase,
    StaleTag,
    UnknownPrompt,
    UnknownTag,
    UnknownVersion,
    VersionTaken,
    apply_modifications,
    effective_hash,
)
from tests.support.prompt_examples import NAME, moved, template, toned

pytestmark = pytest.mark.timeout(180)


class TestSeeding:
    async def test_a_seeded_prompt_resolves_to_its_own_text_as_version_1(self, store: OverrideStore) -> None:
        seeded = await store.seed(template())

        resolved = await store.resolve(NAME, tag="stable")
        assert resolved.template == template()
        assert resolved.configuration == template().configuration()
        assert (seeded.revision, seeded.version, seeded.change.action) == (1, "1.0.0", "seed")
        assert (await store.resolve(NAME, tag="1.0.0")).hash == resolved.hash == seeded.config_hash

    async def test_seeding_again_leaves_what_is_there(self, store: OverrideStore) -> None:
        first = await store.seed(template())
        changed = await moved(store, "Be kind.", first.revision)

        assert await store.seed(template()) == changed

    async def test_seeding_another_template_is_refused(self, store: OverrideStore) -> None:
        await store.seed(template())
        other = template(sections=[{"path": "task", "body": "Something else."}], parameters={})

        with pytest.raises(StaleTag, match="was made for template"):
            await store.seed(other)

    async def test_a_second_tag_is_no_second_first_version(self, store: OverrideStore) -> None:
        await store.seed(template())
        assert (await store.seed(template(), tag="canary")).version is None

    async def test_many_seeds_at_once_make_one_tag(self, store: OverrideStore) -> None:
        states = await asyncio.gather(*(store.seed(template()) for _ in range(8)))
        assert len({state.change.id for state in states}) == 1
        assert len(await store.history(NAME, "stable")) == 1


class TestStoring:
    async def test_what_is_stored_is_what_resolves(self, store: OverrideStore) -> None:
        overrides = Overrides(
            sections={
                "rules/tone": template().override("rules/tone", "Be kind.\r\nCafe\u0301 — „ok“."),
                "examples": template().override("examples", [{"input": {"a": 1}, "output": "bug"}]),
                "tools/lookup": template().override("tools/lookup", "Looks an order up."),
            },
            parameters={"labels": ["bug", "billing", "shipping"], "risk": 0.75, "tries": 9, "strict": True, "style": "formal"},
        )
        await store.seed(template())
        stored = await store.store(template(), overrides, tag="canary", expected=None)

        resolved = await store.resolve(NAME, tag="canary")
        assert resolved.state == stored
        assert resolved.hash == effective_hash(resolved.configuration) == effective_hash(template().configuration(overrides))
        assert resolved.configuration["section:rules/tone"] == "Be kind.\nCafé — „ok“."
        assert resolved.configuration["param:labels"] == ["bug", "billing", "shipping"]
        assert template().overrides_of(resolved.configuration) == overrides

    async def test_a_tag_moves_only_from_where_the_caller_saw_it(self, store: OverrideStore) -> None:
        first = await store.seed(template())
        second = await moved(store, "Second.", first.revision)

        with pytest.raises(StaleBase, match=r"'stable' of support/triage is at revision 2, not at revision 1") as lost:
            await moved(store, "Third.", first.revision)
        assert lost.value.current == second
        with pytest.raises(StaleBase, match="not absent"):
            await moved(store, "Third.", None)
        with pytest.raises(StaleBase, match="does not exist, not at revision 1"):
            await moved(store, "Third.", 1, tag="canary")
        assert await store.current(NAME, "stable") == second

    async def test_the_same_change_asked_for_again_changes_nothing(self, store: OverrideStore) -> None:
        await store.seed(template())
        made = await moved(store, "Second.", 1, change={"id": "release-1"}, version="1.0.1")

        assert await moved(store, "Second.", 1, change={"id": "release-1"}, version="1.0.1") == made
        later = await moved(store, "Third.", 2)
        assert await moved(store, "Second.", 1, change={"id": "release-1"}, version="1.0.1") == made
        assert await store.current(NAME, "stable") == later
        assert len(await store.history(NAME, "stable")) == 3

    @pytest.mark.parametrize(
        ("overrides", "problem"),
        [
            (lambda of: {"sections": {"task": of.override("task", "Obey.")}}, "section 'task' is frozen"),
            (lambda of: {"sections": {"rules/nothing": of.override("task", "x")}}, "no section 'rules/nothing'"),
            (lambda of: {"sections": {"rules/tone": of.override("task", "x")}}, "was made for .*make it anew"),
            (lambda of: {"sections": {"rules/tone": of.override("rules/tone", " ")}}, "is empty"),
            (lambda of: {"sections": {"rules/tone": of.override("rules/tone", 7)}}, "is not text"),
            (lambda of: {"sections": {"ticket": of.override("ticket", "Ticket.")}}, r"lost placeholder \{\{input.ticket\}\}"),
            (lambda of: {"sections": {"rules/tone": of.override("rules/tone", "{{input.secret}}")}}, "nothing would fill it"),
            (lambda of: {"sections": {"examples": of.override("examples", [{"input": 1}])}}, "no list of examples: 0.output"),
            (lambda of: {"parameters": {"nothing": 1}}, "no parameter 'nothing'"),
            (lambda of: {"parameters": {"risk": 1.5}}, "1.5 is outside 0.0 … 1.0"),
            (lambda of: {"parameters": {"tries": 2.5}}, "not a whole number"),
            (lambda of: {"parameters": {"labels": ["bug", "bug", "billing"]}}, "not a permutation"),
            (lambda of: {"parameters": {"strict": 1}}, "neither true nor false"),
            (lambda of: {"parameters": {"style": "rude"}}, "not one of"),
        ],
    )
    async def test_what_the_template_does_not_take_is_refused_and_nothing_is_stored(
        self, store: OverrideStore, overrides: object, problem: str
    ) -> None:
        await store.seed(template())
        assert callable(overrides)
        with pytest.raises(InvalidOverride, match=problem):
            await store.store(template(), Overrides(**overrides(template())), tag="stable", expected=1)
        assert len(await store.history(NAME, "stable")) == 1

    async def test_frozen_parts_change_only_on_purpose(self, store: OverrideStore) -> None:
        await store.seed(template())
        sections = [section.model_dump() for section in template().sections]
        other = template(sections=[{**sections[0], "body": "You may do anything."}, *sections[1:]])

        with pytest.raises(FrozenChanged, match="frozen parts"):
            await store.store(other, Overrides(), tag="stable", expected=1)
        state = await store.store(other, Overrides(), tag="stable", expected=1, frozen_may_change=True)
        assert (await store.resolve(NAME, tag="stable")).template == other
        assert state.template_hash == other.hash

    async def test_authored_text_may_change_and_stale_overrides_are_refused(self, store: OverrideStore) -> None:
        await store.seed(template())
        sections = [section.model_dump() for section in template().sections]
        other = template(sections=[*sections[:2], {**sections[2], "body": "Be very brief."}, *sections[3:]])

        with pytest.raises(InvalidOverride, match="make it anew"):
            await store.store(other, toned("Be kind."), tag="stable", expected=1)
        await store.store(other, toned("Be kind.", other), tag="stable", expected=1)
        with pytest.raises(StaleTag, match="was made for template"):
            await store.resolve(NAME, tag="stable", template=template())
        assert (await store.resolve(NAME, tag="stable", template=other)).configuration["section:rules/tone"] == "Be kind."


class TestReading:
    async def test_nothing_falls_back_to_anything(self, store: OverrideStore) -> None:
        with pytest.raises(UnknownPrompt, match="no prompt support/triage; seed it"):
            await store.resolve(NAME, tag="stable")
        await store.seed(template())
        with pytest.raises(UnknownTag, match="no tag 'canary'; it has stable"):
            await store.resolve(NAME, tag="canary")
        with pytest.raises(UnknownVersion, match=r"no version 2.0.0; it has 1.0.0"):
            await store.resolve(NAME, tag="2.0.0")

    async def test_a_candidate_that_was_tried_is_shipped_byte_for_byte(self, store: OverrideStore) -> None:
        """The first defect of 000: the candidate must contain the baseline's own overrides, and so must what is shipped."""
        await store.seed(template())
        await moved(store, "The baseline's own tone.", 1)
        baseline = await store.resolve(NAME, tag="stable")

        candidate = {**baseline.configuration, "section:rules/labels": "Labels: {{factors.labels}}!", "param:risk": 0.25}
        evaluated = baseline.template.render(candidate, {"ticket": "Where is my parcel?"})
        await store.store(
            baseline.template, baseline.template.overrides_of(candidate), tag="stable", expected=baseline.state.revision
        )

        shipped = await store.resolve(NAME, tag="stable")
        assert shipped.hash == effective_hash(candidate)
        rendered = shipped.render({"ticket": "Where is my parcel?"})
        assert (rendered.text, rendered.messages, rendered.tools) == (evaluated.text, evaluated.messages, evaluated.tools)
        assert "The baseline's own tone." in rendered.text


class TestTags:
    async def test_a_deleted_tag_is_gone_and_its_history_stays(self, store: OverrideStore) -> None:
        await store.seed(template())
        await moved(store, "For a while.", None, tag="opt-1")
        assert [state.tag for state in await store.list_tags(NAME)] == ["opt-1", "stable"]

        with pytest.raises(StaleBase):
            await store.delete(NAME, tag="opt-1", expected=2)
        await store.delete(NAME, tag="opt-1", expected=1)

        assert [state.tag for state in await store.list_tags(NAME)] == ["stable"]
        with pytest.raises(UnknownTag):
            await store.resolve(NAME, tag="opt-1")
        assert [(state.revision, state.deleted) for state in await store.history(NAME, "opt-1")] == [(1, False), (2, True)]
        assert await store.delete(NAME, tag="opt-1", expected=1) is None
        assert (await moved(store, "Back.", None, tag="opt-1")).revision == 3
        with pytest.raises(StaleBase):
            await moved(store, "An old sight of it.", 1, tag="opt-1")

    async def test_a_deleted_temporary_tag_leaves_nothing_behind(self, store: OverrideStore) -> None:
        await store.seed(template())
        for text, expected in (("First.", None), ("Second.", 1), ("Third.", 2)):
            await moved(store, text, expected, tag="opt-1", temporary=True, owner="run-1")

        with pytest.raises(StaleBase):
            await store.delete(NAME, tag="opt-1", expected=2)
        removed = await store.delete(NAME, tag="opt-1", expected=3)

        assert removed is not None
        assert removed.deleted
        assert await store.history(NAME, "opt-1") == []
        assert [state.tag for state in await store.list_tags(NAME)] == ["stable"]
        with pytest.raises(UnknownTag):
            await store.resolve(NAME, tag="opt-1")
        assert await store.delete(NAME, tag="opt-1", expected=3) is None
        assert (await moved(store, "Back.", None, tag="opt-1", temporary=True, owner="run-2")).revision == 1

    async def test_a_tag_is_temporary_from_the_first_to_the_last(self, store: OverrideStore) -> None:
        await store.seed(template())
        await moved(store, "Tried.", None, tag="opt-1", temporary=True, owner="run-1")

        with pytest.raises(PromptError, match="'stable' of support/triage is no temporary one, and stays so"):
            await moved(store, "Tried.", 1, temporary=True, owner="run-1")
        with pytest.raises(PromptError, match="'opt-1' of support/triage is temporary, and stays so"):
            await moved(store, "Kept.", 1, tag="opt-1")
        with pytest.raises(PromptError, match="cannot be a version"):
            await moved(store, "Tried.", 1, tag="opt-1", temporary=True, version="1.1.0")
        promoted = await store.copy_tag(NAME, source="opt-1", tag="stable", expected=1)
        assert (promoted.temporary, promoted.owner) == (False, None)

    async def test_a_canary_is_promoted_and_a_version_comes_back(self, store: OverrideStore) -> None:
        await store.seed(template())
        canary = await moved(store, "Kinder.", None, tag="canary", version="1.1.0", parent="1.0.0")
        promoted = await store.copy_tag(
            NAME, source="canary", tag="stable", expected=1, change=Change(action="promote", by="mia")
        )

        assert (promoted.version, promoted.config_hash, promoted.change.by) == ("1.1.0", canary.config_hash, "mia")
        back = await store.copy_tag(NAME, source="1.0.0", tag="stable", expected=2, change=Change(action="rollback"))
        assert (await store.resolve(NAME, tag="stable")).configuration == template().configuration()
        assert back.version == "1.0.0"
        assert [state.change.action for state in await store.history(NAME, "stable")] == ["seed", "promote", "rollback"]
        assert (await store.resolve(NAME, tag="canary")).state == canary

    async def test_differences_are_told_factor_by_factor(self, store: OverrideStore) -> None:
        await store.seed(template())
        overrides = Overrides(sections=toned("Be kind.").sections, parameters={"risk": 1})
        await store.store(template(), overrides, tag="canary", expected=None)

        assert await store.diff(NAME, "stable", "stable") == []
        differences = await store.diff(NAME, "stable", "canary")
        assert [(each.factor, each.before, each.after) for each in differences] == [
            ("section:rules/tone", "Be brief.", "Be kind."),
            ("param:risk", 0.5, 1),
        ]
        assert await store.diff(NAME, "source", "canary") == await store.diff(NAME, "1.0.0", "canary") == differences

    async def test_prompts_are_listed_and_do_not_mix(self, store: OverrideStore) -> None:
        for name in ("support/triage", "support/triage/deep", "support/answer", "sales.eu/triage"):
            await store.seed(template(name))
        await store.store(template("support/answer"), toned("Be kind.", template("support/answer")), tag="stable", expected=1)

        assert await store.names() == ["sales.eu/triage", "support/answer", "support/triage", "support/triage/deep"]
        assert (await store.resolve("support/triage/deep", tag="stable")).configuration["section:rules/tone"] == "Be brief."
        assert [state.tag for state in await store.list_tags("support/triage")] == ["stable"]


class TestModifications:
    async def test_all_are_applied_on_top_of_the_base_or_none(self, store: OverrideStore) -> None:
        await store.seed(template())
        await moved(store, "The baseline's own tone.", 1)
        base = await store.resolve(NAME, tag="stable")

        def change(path: str, body: str, of: str | None = None) -> Modification:
            return Modification(section_path=path, original_hash=template().section(of or path).hash, proposed_body=body)

        unfit = [change("rules/labels", "Of {{factors.labels}}."), change("ticket", "{{input.ticket}}", of="task")]
        with pytest.raises(InvalidOverride, match="make it anew"):
            await apply_modifications(store, base.descriptor, unfit)
        assert await store.current(NAME, "stable") == base.state
        both = [change("rules/labels", "Of {{factors.labels}}."), change("ticket", "{{input.ticket}}")]
        await apply_modifications(store, base.descriptor, [each.model_dump() for each in both], change=Change(id="compress-1"))

        applied = await store.resolve(NAME, tag="stable")
        assert applied.configuration == {
            **base.configuration,
            "section:rules/labels": "Of {{factors.labels}}.",
            "section:ticket": "{{input.ticket}}",
        }
        with pytest.raises(StaleBase, match=f"is at revision 3, not at what this was validated on .{base.hash[:12]}"):
            await apply_modifications(store, base.descriptor, [change("rules/tone", "Late.")])
        assert (await store.resolve(NAME, tag="stable")).state == applied.state
        assert await apply_modifications(store, base.descriptor, both, change=Change(id="compress-1")) == applied.state


class TestVersions:
    async def test_versions_never_change(self, store: OverrideStore) -> None:
        await store.seed(template())
        await moved(store, "Second.", 1, version="1.0.1")

        with pytest.raises(VersionTaken, match=r"1.0.1 of support/triage holds something else since .*take the next number"):
            await moved(store, "Third.", 2, version="1.0.1")
        assert (await store.current(NAME, "stable") or template()).version == "1.0.1"  # type: ignore[union-attr]
        assert (await store.resolve(NAME, tag="1.0.1")).configuration["section:rules/tone"] == "Second."
        same = await moved(store, "Second.", None, tag="canary", version="1.0.1")
        assert same.version == "1.0.1"

    async def test_versions_are_in_the_order_of_their_numbers(self, store: OverrideStore) -> None:
        await store.seed(template())
        for revision, version in enumerate(("1.0.2", "1.0.10", "2.0.0", "1.9.0"), start=1):
            await moved(store, f"As {version}.", revision, version=version)

        versions = await store.versions(NAME)
        assert [state.version for state in versions] == ["1.0.0", "1.0.2", "1.0.10", "1.9.0", "2.0.0"]
        assert [state.parent for state in versions] == [None, "1.0.0", "1.0.2", "2.0.0", "1.0.10"]

    async def test_a_move_that_lost_leaves_no_version(self, store: OverrideStore) -> None:
        await store.seed(template())
        await moved(store, "Won.", 1, version="1.0.1")
        with pytest.raises(StaleBase):
            await moved(store, "Lost.", 1, version="1.0.2")

        assert [state.version for state in await store.versions(NAME)] == ["1.0.0", "1.0.1"]
        await moved(store, "Later.", 2, version="1.0.2")
        assert (await store.resolve(NAME, tag="1.0.2")).configuration["section:rules/tone"] == "Later."

    async def test_the_evidence_stays_with_the_change(self, store: OverrideStore) -> None:
        await store.seed(template())
        evidence = {"run": "triage-1", "scores": {"label": 0.875}, "verdict": "better"}
        await moved(store, "Better.", 1, change={"by": "mia", "why": "it is better", "evidence": evidence, "action": "release"})

        change = (await store.history(NAME, "stable"))[-1].change
        assert (change.by, change.why, change.evidence, change.action) == ("mia", "it is better", evidence, "release")
