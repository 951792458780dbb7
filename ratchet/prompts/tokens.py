"""How many tokens a text has, by a tokenizer whose vocabulary ships in its package."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ratchet._text.placeholders import as_text

if TYPE_CHECKING:
    from bpe_openai import Encoding

ENCODING = "o200k_base"


def tokens_of(value: Any) -> int:
    """The tokens of a text; of anything else, of its JSON."""
    return len(_encoding().encode_ordinary(as_text(value)))


@cache
def _encoding() -> Encoding:
    try:
        import bpe_openai  # its vocabulary takes a moment to load, and rendering does not need it
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "counting tokens needs bpe-openai; install ratchet-optimizer[tokens]", name=error.name
        ) from None
    return bpe_openai.get_encoding(ENCODING)
