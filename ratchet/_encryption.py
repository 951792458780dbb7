"""Keys that contents are encrypted with: several with ids, of which the first one encrypts and all decrypt, so that they can be
changed while everything goes on."""

from __future__ import annotations

import os
import re
import zlib
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ratchet._environment import BadSetting, Variable, setting

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
LARGEST_BYTES: Final = 1024**3
"""Of what a content may unfold to."""
WORTH_COMPRESSING_BYTES: Final = 128
"""What is shorter gains nothing."""

KEYS: Final = Variable(
    "RATCHET_ENCRYPTION_KEYS",
    "servers",
    "no encryption",
    "Keys that contents are encrypted with, in Temporal and in PostgreSQL, as `id:key`, separated by commas; a key is 32 "
    "random bytes in base64. The first one encrypts, all decrypt. Whoever renders prompts from PostgreSQL needs them, too. "
    "[Operations](../operations.md#encryption).",
)
KEYS_FILE: Final = Variable(
    "RATCHET_ENCRYPTION_KEYS_FILE",
    "servers",
    "no encryption",
    "File with the same, `id:key` on each line. Set one of the two.",
)
KEY_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HOW: Final = "write id:key, where the key is 32 random bytes in base64, as `openssl rand -base64 32` prints them"


class KeyMissing(Exception):
    """Something was encrypted with a key that is not here, or that is another one here."""


class NotEncryptedHere(KeyMissing):
    """The key is here, and has not encrypted this: it is another key of that id, or the content was changed or made up."""


@dataclass(frozen=True)
class EncryptionKeys:
    """Keys by their ids. They are never shown."""

    keys: Mapping[str, bytes] = field(repr=False)
    source: str = KEYS.name
    """The variable that they came from, for messages."""

    def __post_init__(self) -> None:
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise BadSetting(
                f"{self.source} is set, and the package 'cryptography' is missing; install ratchet-optimizer[encryption]"
            ) from None

    @property
    def first(self) -> str:
        """The id of the key that encrypts."""
        return next(iter(self.keys))

    def encrypt(self, content: bytes) -> bytes:
        """Encrypt with the first key: a nonce, then what AES-GCM gives, with its tag."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._ciphers[self.first].encrypt(nonce, content, None)

    def decrypt(self, key_id: str, encrypted: bytes) -> bytes:
        """Decrypt what was encrypted with a key. Raise KeyMissing where that is not here, or is another one."""
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise KeyMissing(
                f"key {key_id[:64]!r} is missing, with which this was encrypted: {self.source} holds {', '.join(self.keys)}; "
                "add that key behind the first one"
            )
        try:
            return cipher.decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], None)
        except (InvalidTag, ValueError):
            raise NotEncryptedHere(
                f"what key {key_id!r} encrypted cannot be decrypted: {self.source} holds another key of that id, or the "
                "content was changed"
            ) from None

    def derived(self, purpose: str) -> EncryptionKeys:
        """Keys of the same ids for one purpose alone, so that what is encrypted for one is never taken for another."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        info = f"ratchet {purpose}".encode()
        return EncryptionKeys(
            {key_id: HKDF(SHA256(), KEY_BYTES, None, info).derive(key) for key_id, key in self.keys.items()}, self.source
        )

    @cached_property
    def _ciphers(self) -> Mapping[str, AESGCM]:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return {key_id: AESGCM(key) for key_id, key in self.keys.items()}


def compressed(content: bytes) -> bytes | None:
    """The content in less bytes; None where it is short, or does not become shorter."""
    if len(content) < WORTH_COMPRESSING_BYTES:
        return None
    shorter = zlib.compress(content)
    return shorter if len(shorter) < len(content) else None


def unfolded(shorter: bytes) -> bytes:
    """Return what was compressed, unless it is larger than anything that is kept."""
    unfolding = zlib.decompressobj()
    content = unfolding.decompress(shorter, LARGEST_BYTES)
    if unfolding.unconsumed_tail:
        raise KeyMissing(f"an encrypted content unfolds to more than {LARGEST_BYTES:,} bytes")
    return content


def no_keys(key_id: str) -> KeyMissing:
    """What to say where something is encrypted, and there are no keys at all."""
    return KeyMissing(
        f"this was encrypted with key {key_id[:64]!r}, and neither {KEYS.name} nor {KEYS_FILE.name} is set here; "
        "set one of them, as it is where this was written"
    )


def read_keys(text: str, name: str) -> EncryptionKeys:
    """Read keys from a variable."""
    return _keys_in([entry.strip() for entry in re.split(r"[,\n]", text)], name)


def read_keys_file(text: str, name: str) -> EncryptionKeys:
    """Read keys from a file."""
    try:
        lines = Path(text).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadSetting(f"{name} names {text}, which cannot be read: {reason}") from None
    return _keys_in([line.strip() for line in lines if not line.lstrip().startswith("#")], name)


def _keys_in(entries: list[str], name: str) -> EncryptionKeys:
    """No message quotes an entry: it may be a key that stands in the wrong place."""
    keys: dict[str, bytes] = {}
    for number, entry in enumerate(filter(None, entries), start=1):
        key_id, colon, encoded = (part.strip() for part in entry.partition(":"))
        if not colon or not KEY_NAME.fullmatch(key_id):
            raise BadSetting(f"{name}: entry {number} has no id of letters, digits, '-', '_' and '.'; {_HOW}")
        try:
            key = b64decode(encoded.translate(_STANDARD), validate=True)
        except ValueError:
            raise BadSetting(f"{name}: the key {key_id!r} is no base64; {_HOW}") from None
        if len(key) != KEY_BYTES:
            raise BadSetting(f"{name}: the key {key_id!r} has {len(key)} bytes; {_HOW}")
        if keys.setdefault(key_id, key) != key:
            raise BadSetting(f"{name}: there are two keys {key_id!r}; give each its own id")
    if not keys:
        raise BadSetting(f"{name} holds no key; {_HOW}")
    return EncryptionKeys(keys, name)


_STANDARD: Final = str.maketrans("-_", "+/")


@dataclass(frozen=True)
class EncryptionSettings:
    """With which keys contents are encrypted, where they are."""

    given: EncryptionKeys | None = setting(KEYS, default=None, read=read_keys)
    of_file: EncryptionKeys | None = setting(KEYS_FILE, default=None, read=read_keys_file)

    def __post_init__(self) -> None:
        if self.given is not None and self.of_file is not None:
            raise BadSetting(f"{KEYS.name} and {KEYS_FILE.name} are both set; leave one of them out")

    @property
    def keys(self) -> EncryptionKeys | None:
        """The keys; None where nothing is encrypted."""
        return self.given or self.of_file
