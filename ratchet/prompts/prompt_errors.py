"""What can be wrong with a prompt, a tag or a store. Every message names the thing and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ratchet.prompts.overrides import TagState


class PromptError(ValueError):
    """Something about prompts that trying again does not change."""


class InvalidName(PromptError):
    """A name, tag, path or version that is not written as it must be."""


class InvalidTemplate(PromptError):
    """A template that cannot be used; the message lists what is wrong with it."""


class InvalidOverride(PromptError):
    """An override that the template does not take: unknown, frozen, stale, out of range, or with other placeholders."""


class FrozenChanged(PromptError):
    """A tag would move to a template whose frozen parts are others than those it has now."""


class UnknownPrompt(PromptError):
    """The store knows no prompt of that name."""


class UnknownTag(PromptError):
    """The prompt has no such tag."""


class UnknownVersion(PromptError):
    """The prompt has no such version."""


class VersionTaken(PromptError):
    """A version that holds something else already; versions never change."""

    @classmethod
    def by(cls, kept: TagState) -> VersionTaken:
        return cls(
            f"version {kept.version} of {kept.name} holds something else since {kept.change.at:%Y-%m-%d %H:%M}; "
            "versions never change, take the next number"
        )


class StaleTag(PromptError):
    """A tag that was made for another template than the one it is resolved against."""


class Damaged(PromptError):
    """What is stored is not what was stored."""


class StoreRefused(PromptError):
    """A store that cannot be used, by its address or by what it fails to guarantee."""


class StaleBase(PromptError):
    """A compare-and-swap that lost: the tag is no longer where the caller saw it. Nothing was changed."""

    def __init__(self, name: str, tag: str, expected: int | str | None, current: TagState | None) -> None:
        super().__init__(
            f"tag {tag!r} of {name} {_standing(current)}, not {_expected(expected)}; look at it again, then decide again"
        )
        self.name = name
        self.tag = tag
        self.expected = expected
        self.current = current


class StoreAway(ConnectionError):
    """The store cannot be reached; trying again may help."""


def _standing(current: TagState | None) -> str:
    if current is None:
        return "does not exist"
    return f"was deleted at revision {current.revision}" if current.deleted else f"is at revision {current.revision}"


def _expected(expected: int | str | None) -> str:
    if isinstance(expected, str):
        return f"at what this was validated on ({expected[:12]}…)"
    return "absent" if expected is None else f"at revision {expected}"
