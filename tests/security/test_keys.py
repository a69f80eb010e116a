"""API keys: made, kept as hashes, revoked from another process, verified quickly, guessed in vain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.security.stated import made, record, revoked, statement
from weft.errors import StorageError, UsageError
from weft.model import Topic
from weft.security import (
    SALT_BYTES,
    SECRET_BYTES,
    Authenticator,
    Cause,
    KeyRequest,
    KeyStore,
    Secret,
    Unauthenticated,
    create_key,
    read_keys,
    revoke_key,
)
from weft.security import api_keys as api_keys_module
from weft.security import authenticator as authenticator_module
from weft.security.acl import owner_of
from weft.security.api_keys import KeyRecord, fits, hash_secret, parse_key_untrusted
from weft.security.authenticator import API_KEYS_AT_ONCE
from weft.security.mesh_keys import MeshKeys
from weft.security.rates import FAILURES_BURST

ENTROPY = bytes(range(SECRET_BYTES + SALT_BYTES))
SECRET_HEX = ENTROPY[:SECRET_BYTES].hex()


def entropy(number: int) -> bytes:
    """Another one for each number; 0 is ENTROPY."""
    return ENTROPY[:SECRET_BYTES] + bytes(byte ^ number for byte in ENTROPY[SECRET_BYTES:])


BILLING = KeyRequest("billing", publish=("orders.>",), subscribe=("orders.paid",))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hash that takes no time, but in the tests of the hash itself."""
    monkeypatch.setattr("weft.security.key_store.hash_secret", lambda secret, salt: hash_secret(secret, salt, n=2))


class Desk:
    """An authenticator with clocks that are turned by hand."""

    def __init__(self, data: Path, **options: int) -> None:
        self.now_s = 0.0
        self.unix_s = 1_800_000_000.0
        self.store = KeyStore(data)
        self.authenticator = Authenticator(
            self.store, b"k" * 32, clock=lambda: self.now_s, wall_clock=lambda: self.unix_s, **options
        )

    async def refused(self, key: str | None, host: str = "10.0.0.1") -> Unauthenticated:
        with pytest.raises(Unauthenticated) as caught:
            await self.authenticator.authenticate_untrusted(None if key is None else Secret(key), host)
        return caught.value


# --- the keys themselves -----------------------------------------------------------------------------------------


@pytest.mark.req("SEC-02")
def test_a_key_is_shown_once_and_kept_as_a_hash(tmp_path: Path) -> None:
    record, key = create_key(tmp_path, BILLING, ENTROPY, now_s=1.5)
    assert record.id == f"k{record.hash.mark}"
    assert key.reveal() == f"weft_{record.id}_{SECRET_HEX}"
    text = (tmp_path / "keys.json").read_text()
    assert SECRET_HEX not in text
    assert (tmp_path / "keys.json").stat().st_mode & 0o777 == 0o600
    assert read_keys(tmp_path) == (record,)
    assert (record.name, record.created_s, record.admin) == ("billing", 1, False)


@pytest.mark.req("SEC-02")
def test_the_hash_is_scrypt_with_its_figures_beside_it() -> None:
    kept = hash_secret(Secret(b"secret"), b"salt")
    assert (kept.scheme, kept.n, kept.r, kept.p) == ("scrypt", 16384, 8, 1)
    assert fits(Secret(b"secret"), kept)
    assert not fits(Secret(b"Secret"), kept)
    # RFC 7914, 12: scrypt("password", "NaCl", 1024, 8, 16), the first 32 bytes.
    vector = "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
    assert fits(Secret(b"password"), msgspec.structs.replace(kept, salt=b"NaCl".hex(), digest=vector, n=1024, p=16))


def test_an_id_is_that_of_one_secret_and_is_never_given_twice(tmp_path: Path) -> None:
    first, second = (create_key(tmp_path, BILLING, entropy(number), 0)[0] for number in (1, 2))
    assert first.id != second.id and first.acl.who == f"key {first.id}"
    with pytest.raises(UsageError, match=f"there is a key {second.id} already"):
        create_key(tmp_path, BILLING, entropy(2), 0)
    revoke_key(tmp_path, first.id)
    assert read_keys(tmp_path) == (second,)
    with pytest.raises(UsageError, match=f"there is no key '{first.id}'"):
        revoke_key(tmp_path, first.id)
    with pytest.raises(UsageError, match=f"key {first.id} was revoked"):
        create_key(tmp_path, BILLING, entropy(1), 0)


def test_several_at_once_lose_nothing(tmp_path: Path) -> None:
    threads = [threading.Thread(target=create_key, args=(tmp_path, BILLING, entropy(number), 0)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.id for each in read_keys(tmp_path)}) == 8


def test_there_are_only_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.security.key_store.API_KEYS_MAX", 1)
    create_key(tmp_path, BILLING, ENTROPY, 0)
    with pytest.raises(UsageError, match="too many API keys"):
        create_key(tmp_path, BILLING, entropy(1), 0)


async def test_a_file_of_before_keys_belonged_to_the_mesh_is_read(tmp_path: Path) -> None:
    """Its ids are numbers; several nodes may have given the same."""
    record, _ = create_key(tmp_path, BILLING, ENTROPY, 0)
    numbered = msgspec.to_builtins(record) | {"id": "k1"}
    (tmp_path / "keys.json").write_bytes(msgspec.json.encode({"keys": [numbered], "next": 2, "version": 1}))
    (found,) = read_keys(tmp_path)
    assert (found.id, found.hash) == ("k1", record.hash)
    await shown_is(tmp_path, f"weft_k1_{SECRET_HEX}", "k1")
    revoke_key(tmp_path, "k1")
    assert read_keys(tmp_path) == ()


async def shown_is(data: Path, key: str, key_id: str) -> None:
    found = await Desk(data).authenticator.authenticate_untrusted(Secret(key), "10.0.0.1")
    assert found.key_id == key_id


@pytest.mark.parametrize(
    "wanted",
    [
        {"name": "x"},
        {"name": "", "admin": True},
        {"name": "a\nb", "admin": True},
        {"name": "a" * 65, "admin": True},
        {"name": "x", "publish": ("a..b",)},
        {"name": "x", "subscribe": (">.a",)},
        {"name": "x", "publish": ("a",) * 65},
        {"name": "x", "groups": ("a",)},
        {"name": "x", "admin": True, "groups": ("a",) * 65},
        {"name": "x", "admin": True, "groups": ("a*b",)},
    ],
)
def test_requests_that_make_no_sense(wanted: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        KeyRequest(**wanted)


@pytest.mark.parametrize(
    "change",
    [
        {"id": "3"},
        {"id": "k0123456789abcdef"},
        {"publish": ["a..b"]},
        {"name": ""},
        {"hash": {"salt": "00", "digest": "00"}},
        {"hash": {"salt": "x", "digest": "00" * 32}},
        {"hash": {"salt": "00", "digest": "00" * 32, "scheme": "md5"}},
        {"hash": {"salt": "00", "digest": "00" * 32, "n": 3}},
        {"hash": {"salt": "00", "digest": "00" * 32, "n": 1 << 30}},
        {"hash": {"salt": "00", "digest": "00" * 32, "r": 0}},
        {"unknown": 1},
    ],
)
def test_a_damaged_file_is_said(tmp_path: Path, change: dict[str, Any]) -> None:
    create_key(tmp_path, BILLING, ENTROPY, 0)
    document = msgspec.json.decode((tmp_path / "keys.json").read_bytes())
    document["keys"][0] |= change
    (tmp_path / "keys.json").write_bytes(msgspec.json.encode(document))
    with pytest.raises(StorageError, match=r"keys\.json is damaged"):
        read_keys(tmp_path)


@given(st.text(max_size=200) | st.from_regex(api_keys_module.KEY))
def test_any_text_is_a_key_or_refused(text: str) -> None:
    try:
        key_id, secret = parse_key_untrusted(text)
    except Unauthenticated:
        return
    assert text == f"weft_{key_id}_{secret.reveal().hex()}"


# --- who calls ---------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-02")
async def test_a_key_becomes_a_principal_with_its_rights(tmp_path: Path) -> None:
    record, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    found = await Desk(tmp_path).authenticator.authenticate_untrusted(key, "10.0.0.1")
    assert (found.key_id, found.record, found.acl) == (record.id, record, record.acl)


@pytest.mark.req("SEC-02")
async def test_refusals(tmp_path: Path) -> None:
    good, _ = create_key(tmp_path, BILLING, ENTROPY, 0)
    old, _ = create_key(tmp_path, KeyRequest("old", admin=True, expires_s=1_800_000_000), entropy(1), 0)
    desk = Desk(tmp_path)
    for key, cause, words in (
        (None, Cause.NO_KEY, "no API key"),
        ("", Cause.BAD_KEY, "not an API key"),
        (f"weft_{good.id}_" + "0" * 64, Cause.BAD_KEY, f"key {good.id} is not valid: unknown, revoked or mistyped"),
        (f"weft_k9_{SECRET_HEX}", Cause.BAD_KEY, "key k9 is not valid: unknown, revoked or mistyped"),
        (f"weft_{old.id}_{SECRET_HEX}", Cause.EXPIRED_KEY, f"key {old.id} has expired"),
    ):
        error = await desk.refused(key)
        assert error.cause is cause
        assert words in str(error)
        assert SECRET_HEX not in str(error)


@pytest.mark.req("SEC-02")
async def test_revoking_counts_within_a_second_on_open_streams_and_new_calls(tmp_path: Path) -> None:
    record, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    desk = Desk(tmp_path)
    streaming = await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    revoke_key(tmp_path, record.id)
    assert desk.authenticator.refresh(streaming) is streaming, "not looked at yet"
    await desk.store.look()
    with pytest.raises(Unauthenticated, match=f"key {record.id} was revoked") as caught:
        desk.authenticator.refresh(streaming)
    assert caught.value.cause is Cause.REVOKED_KEY
    assert (await desk.refused(key.reveal())).cause is Cause.REVOKED_KEY


async def test_rights_that_change_reach_open_streams(tmp_path: Path) -> None:
    _, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    desk = Desk(tmp_path)
    streaming = await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    document = msgspec.json.decode((tmp_path / "keys.json").read_bytes())
    document["keys"][0]["publish"] = ["invoices.>"]
    (tmp_path / "keys.json").write_bytes(msgspec.json.encode(document))
    await desk.store.look()
    assert desk.authenticator.refresh(streaming).acl.publish == ("invoices.>",)
    assert (await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")).acl.publish == ("invoices.>",)


async def test_a_key_that_is_no_longer_in_the_file_is_good_no_more(tmp_path: Path) -> None:
    """A file that was put back from a backup, of a node that has not told the mesh of the key yet."""

    record, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    desk = Desk(tmp_path)
    streaming = await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    (tmp_path / "keys.json").unlink()
    create_key(tmp_path, BILLING, bytes(SECRET_BYTES + SALT_BYTES), 0)
    await desk.store.look()
    with pytest.raises(Unauthenticated, match=f"key {record.id} was revoked"):
        desk.authenticator.refresh(streaming)


async def test_a_key_expires_on_open_streams_too(tmp_path: Path) -> None:
    record, key = create_key(tmp_path, KeyRequest("x", admin=True, expires_s=1_800_000_010), ENTROPY, 0)
    desk = Desk(tmp_path)
    streaming = await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    desk.unix_s += 10
    with pytest.raises(Unauthenticated, match=f"key {record.id} has expired"):
        desk.authenticator.refresh(streaming)


@pytest.mark.req("SEC-02")
async def test_a_known_key_is_not_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    desk = Desk(tmp_path)
    first = await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    monkeypatch.setattr(authenticator_module, "fits", lambda *_: pytest.fail("hashed again"))
    assert await desk.authenticator.authenticate_untrusted(key, "10.0.0.2") is first
    assert SECRET_HEX.encode() not in repr(vars(desk.authenticator)).encode(), "nor is it kept"


async def test_a_crowd_with_one_key_has_it_hashed_once_or_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    desk = Desk(tmp_path)
    hashed: list[object] = []

    def fits_always(*arguments: object) -> bool:
        hashed.append(arguments)
        return True

    monkeypatch.setattr(authenticator_module, "fits", fits_always)
    calls = [desk.authenticator.authenticate_untrusted(key, "10.0.0.1") for _ in range(50)]
    assert {each.key_id for each in await asyncio.gather(*calls)} == {record.id}
    assert len(hashed) <= API_KEYS_AT_ONCE


async def test_only_so_many_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [create_key(tmp_path, BILLING, entropy(number), 0)[1] for number in range(3)]
    desk = Desk(tmp_path, cached_max=2)
    hashed: list[object] = []

    def fits_always(*arguments: object) -> bool:
        hashed.append(arguments)
        return True

    monkeypatch.setattr(authenticator_module, "fits", fits_always)
    for number in (0, 1, 0, 2, 0, 1):
        await desk.authenticator.authenticate_untrusted(keys[number], "10.0.0.1")
    assert len(hashed) == 4, "the second was used longest ago when the third came"


@pytest.mark.req("SEC-02", "SEC-04")
async def test_guessing_is_slowed_down_by_key_and_source_and_does_not_hold_up_those_who_are_known(
    tmp_path: Path,
) -> None:
    record, key = create_key(tmp_path, BILLING, ENTROPY, 0)
    wrong = f"weft_{record.id}_" + "0" * 64
    _, other = create_key(tmp_path, BILLING, bytes(SECRET_BYTES + SALT_BYTES), 0)
    desk = Desk(tmp_path)
    await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    for _ in range(FAILURES_BURST):
        assert (await desk.refused(wrong)).cause is Cause.BAD_KEY
    error = await desk.refused(wrong)
    assert error.cause is Cause.TOO_MANY_FAILURES
    assert str(error) == f"key {record.id} was wrong too often from 10.0.0.1: wait (seconds 10)"
    await desk.authenticator.authenticate_untrusted(key, "10.0.0.1")
    await desk.authenticator.authenticate_untrusted(other, "10.0.0.1")
    assert (await desk.refused(wrong, "10.0.0.2")).cause is Cause.BAD_KEY
    desk.now_s += 10.0
    assert (await desk.refused(wrong)).cause is Cause.BAD_KEY


async def test_a_swarm_of_guesses_at_once_is_slowed_down_too(tmp_path: Path) -> None:
    record, _ = create_key(tmp_path, BILLING, ENTROPY, 0)
    desk = Desk(tmp_path)
    guesses = [desk.refused(f"weft_{record.id}_{number:064x}") for number in range(3 * FAILURES_BURST)]
    causes = [error.cause for error in await asyncio.gather(*guesses)]
    assert FAILURES_BURST <= causes.count(Cause.BAD_KEY) <= FAILURES_BURST + 1
    assert causes.count(Cause.TOO_MANY_FAILURES) == len(causes) - causes.count(Cause.BAD_KEY)


@pytest.mark.req("SEC-05")
async def test_whether_an_owner_may_publish_is_known_without_a_look_at_every_key_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mesh has up to 10,000 keys and as many schedules, and their owners are asked for in one turn of the loop."""
    store = KeyStore(tmp_path)
    looks: list[None] = []
    names = MeshKeys.names

    def counted(self: MeshKeys) -> Iterator[tuple[str, str]]:
        looks.append(None)
        return names(self)

    monkeypatch.setattr(MeshKeys, "names", counted)
    shop, plant = record(1, "shop", publish=["shop.>"]), record(2, "plant", publish=["plant.>"], expires_s=100)
    topic = Topic("shop.orders")

    def may(key: KeyRecord, topic: Topic, now_s: float = 0.0) -> bool:
        return store.may_publish(owner_of("key", key.name), topic, now_s)

    assert not may(shop, topic)
    store.mesh.merge(statement(made(shop)), 0.0)
    store.mesh.merge(statement(made(plant)), 0.0)
    looks.clear()
    assert all(may(shop, topic) for _ in range(100)) and not may(plant, topic)
    assert may(plant, Topic("plant.t"), 99.0) and not may(plant, Topic("plant.t"), 100.0)
    assert len(looks) == 1
    store.mesh.merge(statement(revoked(shop)), 0.0)
    assert not may(shop, topic)
    create_key(tmp_path, KeyRequest("shop", publish=("shop.>",)), entropy(1), 0.0)
    await store.look()
    assert may(shop, topic)
