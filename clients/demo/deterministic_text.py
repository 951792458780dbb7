"""What the simulated models are made of: seeded draws, token estimates and word vectors, all from hashes of text."""

import base64
import math
import re
import struct
from functools import lru_cache
from hashlib import blake2b

_PIECES = re.compile(r"\w+|[^\w\s]")
_LETTERS_PER_PIECE = 6


def digest(*parts: object) -> str:
    """A short stable name for a list of values."""
    return blake2b("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def draw(*parts: object) -> float:
    """A number in [0, 1) that depends on the given values alone."""
    raw = blake2b("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(raw) >> 11) / (1 << 53)


def pick(options: tuple[str, ...], *parts: object) -> str:
    """One of the options, chosen by a draw."""
    return options[int(draw("pick", *parts) * len(options))]


@lru_cache(maxsize=4096)
def count_tokens(text: str) -> int:
    """About as many tokens as a word-piece vocabulary would need: long words cost several, punctuation one each."""
    return sum(1 + (len(piece) - 1) // _LETTERS_PER_PIECE for piece in _PIECES.findall(text))


def cut_to_tokens(text: str, limit: int) -> str:
    """The beginning of the text that fits into `limit` tokens."""
    spent = 0
    for piece in _PIECES.finditer(text):
        spent += 1 + (len(piece.group()) - 1) // _LETTERS_PER_PIECE
        if spent > limit:
            return text[: piece.start()].rstrip()
    return text


def embed(text: str, dimensions: int) -> list[float]:
    """A unit vector in which texts that share words are close: every word adds a signed count at a hashed place."""
    vector = [0.0] * dimensions
    for word in _PIECES.findall(text.lower()) or [text]:
        raw = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
        vector[(raw >> 1) % dimensions] += 1.0 if raw & 1 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0.0:  # two words cancelled each other
        return [1.0] + [0.0] * (dimensions - 1)
    return [value / length for value in vector]


def as_base64(vector: list[float]) -> str:
    """The little-endian float32 form that OpenAI clients ask for by default."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
