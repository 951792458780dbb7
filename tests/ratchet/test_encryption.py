"""Keys that contents are encrypted with: how they are read, what they do, and what is said when one is missing or wrong."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from pathlib import Path

import pytest

from ratchet._encryption import EncryptionKeys, EncryptionSettings, KeyMissing, compressed, read_keys, unfolded
from ratchet._environment import BadSetting, settings_from

OLD, NEW = bytes(range(32)), bytes(range(100, 132))
VARIABLE = "RATCHET_ENCRYPTION_KEYS"


def written(**keys: bytes) -> str:
    return ", ".join(f"{key_id}:{b64encode(key).decode()}" for key_id, key in keys.items())


def keys(**given: bytes) -> EncryptionKeys:
    return EncryptionKeys(given)


def test_the_first_key_encrypts_and_all_decrypt_so_that_keys_can_be_changed() -> None:
    before = keys(old=OLD).encrypt(b"secret")
    both = keys(new=NEW, old=OLD)
    assert both.decrypt("old", before) == b"secret"
    assert both.first == "new"
    assert keys(new=NEW).decrypt("new", both.encrypt(b"secret")) == b"secret"


def test_the_same_content_is_never_encrypted_alike() -> None:
    assert keys(old=OLD).encrypt(b"secret") != keys(old=OLD).encrypt(b"secret")


def test_a_key_for_one_purpose_reads_nothing_of_another() -> None:
    derived = keys(old=OLD).derived("store")
    assert derived.decrypt("old", derived.encrypt(b"secret")) == b"secret"
    for other in (keys(old=OLD), keys(old=OLD).derived("elsewhere")):
        with pytest.raises(KeyMissing):
            other.decrypt("old", derived.encrypt(b"secret"))


def test_a_missing_key_and_a_wrong_one_are_named_with_the_variable_and_never_shown() -> None:
    encrypted = keys(old=OLD).encrypt(b"secret")
    for others, told in ((keys(new=NEW), "key 'old' is missing"), (keys(old=NEW), "another key of that id")):
        with pytest.raises(KeyMissing, match=told) as caught:
            others.decrypt("old", encrypted)
        assert VARIABLE in str(caught.value)
        assert b64encode(NEW).decode() not in f"{caught.value}{others!r}"
        assert repr(NEW) not in repr(others)


@pytest.mark.parametrize("changed", [b"", b"short", b"x" * 200])
def test_what_was_changed_is_refused_whatever_it_is(changed: bytes) -> None:
    with pytest.raises(KeyMissing, match="was changed"):
        keys(old=OLD).decrypt("old", changed)


def test_keys_are_read_from_the_variable_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# the new one\nnew: {urlsafe_b64encode(NEW).decode()}\n\nold:{b64encode(OLD).decode()}\n")
    of_file = settings_from(EncryptionSettings, {f"{VARIABLE}_FILE": str(file)}).keys
    of_variable = settings_from(EncryptionSettings, {VARIABLE: written(new=NEW, old=OLD)}).keys
    assert of_file is not None
    assert of_variable is not None
    assert of_file.keys == of_variable.keys == {"new": NEW, "old": OLD}
    assert settings_from(EncryptionSettings, {VARIABLE: " "}).keys is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b64encode(OLD).decode(), "entry 1 has no id"),
        (f"a b:{b64encode(OLD).decode()}", "entry 1 has no id"),
        (f"old:{b64encode(OLD).decode()[:-4]}", "has 30 bytes"),
        ("old:%%%", "is no base64"),
        (f"{written(old=OLD)},{written(old=NEW)}", "two keys 'old'"),
        (",", "holds no key"),
    ],
)
def test_what_is_no_list_of_keys_is_refused_and_not_quoted(text: str, told: str) -> None:
    with pytest.raises(BadSetting, match=told) as caught:
        read_keys(text, VARIABLE)
    assert VARIABLE in str(caught.value)
    assert b64encode(OLD).decode()[:20] not in str(caught.value)


def test_a_file_that_is_missing_and_two_lists_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="cannot be read: No such file"):
        settings_from(EncryptionSettings, {f"{VARIABLE}_FILE": str(tmp_path / "nowhere")})
    file = tmp_path / "keys"
    file.write_text(written(old=OLD))
    with pytest.raises(BadSetting, match="are both set"):
        settings_from(EncryptionSettings, {VARIABLE: written(old=OLD), f"{VARIABLE}_FILE": str(file)})


def test_only_what_gets_shorter_is_compressed() -> None:
    assert compressed(b"short " * 5) is None
    assert compressed(bytes(n * n * 7919 % 251 for n in range(127))) is None
    shorter = compressed(b"a prompt " * 100)
    assert shorter is not None
    assert len(shorter) < 100
    assert unfolded(shorter) == b"a prompt " * 100
