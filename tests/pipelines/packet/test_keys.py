"""Keys are read where they are used, again when they change, and shown to nobody."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkFiles

from tests.pipelines.packets import GROUP_KEYS, KEY_ID, NODE, SEAL_KEY, SECRET, event, means, rows
from weft.errors import StorageError, UsageError
from weft.limits import SECURITY_RELOAD_INTERVAL_S
from weft.pipelines.packet import keys
from weft.pipelines.packet.decoding import judge
from weft.pipelines.packet.keys import KeyFiles, keys_here
from weft.pipelines.packets import TrustSection
from weft.security.secret import Secret
from weft.security.trust_file import DeviceKey, KeyKind, SealKey, add_device, add_group, add_seal, remove_devices
from weft.wire import emm
from weft.wire.emm import TrustPolicy
from weft.wire.reject import BadPacket

DEVICE = DeviceKey(NODE, KEY_ID, KeyKind.HMAC, Secret(SECRET))


class Clock:
    """Stands in for the process' monotonic clock."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(keys, "time", made)
    return made


def seals_file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("given_file", [True, False])
def test_trust_by_file_or_by_directory(tmp_path: Path, given_file: bool) -> None:
    add_device(tmp_path, DEVICE)
    add_group(tmp_path, Secret(GROUP_KEYS[0]))
    keys = keys_here(KeyFiles(str(tmp_path / "trust.json" if given_file else tmp_path)))
    assert keys.trust.hmac_key(NODE.bytes, KEY_ID) == SECRET
    assert keys.ring.group_keys == (GROUP_KEYS[0],)


def test_read_once_and_again_when_changed(tmp_path: Path, clock: Clock) -> None:
    add_device(tmp_path, DEVICE)
    files = KeyFiles(str(tmp_path))
    before = keys_here(files)
    assert keys_here(files) is before
    remove_devices(tmp_path, NODE, None)
    assert keys_here(files) is before, "the file is not looked at for every batch"
    clock.now_s += SECURITY_RELOAD_INTERVAL_S
    with pytest.raises(BadPacket, match="no HMAC key"):
        keys_here(files).trust.hmac_key(NODE.bytes, KEY_ID)


def test_a_file_that_is_damaged_later_leaves_the_keys_and_says_so(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    add_device(tmp_path, DEVICE)
    files = KeyFiles(str(tmp_path))
    keys_here(files)
    (tmp_path / "trust.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            clock.now_s += SECURITY_RELOAD_INTERVAL_S
            assert keys_here(files).trust.hmac_key(NODE.bytes, KEY_ID) == SECRET
    assert [record.message for record in caplog.records if "trust.json is damaged" in record.message] == [
        caplog.records[0].message
    ], "once, not for every batch"


def test_seal_keys(tmp_path: Path) -> None:
    path = seals_file(tmp_path / "seals.json", f'{{"{"00" * 16}": "{SEAL_KEY.hex()}"}}')
    assert keys_here(KeyFiles(seals=str(path))).seals == {bytes(16): SEAL_KEY}


@pytest.mark.parametrize(
    ("text", "mode", "complaint"),
    [
        ("[]", 0o600, "JSON object of key ids"),
        ('{"xx": "00"}', 0o600, "in hexadecimal"),
        ('{"00": "0011"}', 0o600, "seal key 00 has the wrong size"),
        ("{}", 0o644, "open to others"),
    ],
)
def test_bad_seal_files(tmp_path: Path, text: str, mode: int, complaint: str) -> None:
    path = seals_file(tmp_path / "seals.json", text, mode)
    with pytest.raises(StorageError, match=complaint):
        keys_here(KeyFiles(seals=str(path)))


def test_what_is_not_there_is_an_error_and_not_an_empty_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="on this machine"):
        keys_here(KeyFiles(str(tmp_path)))
    with pytest.raises(UsageError, match=r"a file trust\.json or the data directory"):
        keys_here(KeyFiles(str(tmp_path / "other.json")))


def test_a_copy_that_came_with_the_job_is_closed_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark leaves files it brings open to others; on executors they lie in the working directory."""
    add_device(tmp_path, DEVICE)
    sent = tmp_path / "trust.json"
    sent.chmod(0o711)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="open to others"):
        keys_here(KeyFiles("trust.json"))
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: ".")
    assert keys_here(KeyFiles("trust.json")).trust.hmac_key(NODE.bytes, KEY_ID) == SECRET
    assert sent.stat().st_mode & 0o777 == 0o600


def test_first_use_is_refused() -> None:
    with pytest.raises(UsageError, match="every executor would have its own"):
        KeyFiles(policy=TrustPolicy.FIRST_USE)


def test_nothing_secret_travels_or_shows(tmp_path: Path) -> None:
    add_device(tmp_path, DEVICE)
    files = KeyFiles(str(tmp_path))
    assert SECRET not in pickle.dumps(files)
    shown = repr(keys_here(files))
    assert SECRET.hex() not in shown
    assert repr(SECRET) not in shown


@pytest.mark.req("EMM-23")
def test_encryption_keys_of_the_trust_store_count_with_those_of_the_file(tmp_path: Path) -> None:
    add_seal(tmp_path, SealKey(b"i" * 16, Secret(b"k" * 32)))
    add_seal(tmp_path, SealKey(b"j" * 16, Secret(b"l" * 32)))
    more = tmp_path / "seals.json"
    more.write_text(f'{{"{"6a" * 16}": "{"6d" * 32}"}}')
    more.chmod(0o600)
    assert keys_here(KeyFiles(str(tmp_path), str(more))).seals == {b"i" * 16: b"k" * 32, b"j" * 16: b"m" * 32}


@pytest.mark.req("EMM-04", "EMM-22", "EMM-26")
def test_limits_profile_and_what_must_be_sealed_are_settings() -> None:
    section = TrustSection.model_validate(
        {"packet_bytes_max": 1200, "inflated_bytes_max": 2048, "profile": "interop-v1", "sealed": ["secret.>"]}
    )
    terms = section.terms()
    assert (terms.rules.packet_bytes_max, terms.rules.inflated_bytes_max, terms.rules.profile) == (
        1200,
        2048,
        emm.Profile.INTEROP_V1,
    )
    using = means(rules=terms.rules, sealed=terms.sealed)
    packets = [event(1, name="secret.temp"), event(2, b"x" * 400, b"y" * 400, roomy=True), event(3)]
    found = pa.Table.from_batches(list(judge(rows(packets), using))).column("reason").to_pylist()
    assert found == ["unsealed", None, None]
    with pytest.raises(ValueError, match="pattern"):
        TrustSection.model_validate({"sealed": ["a..b"]})
