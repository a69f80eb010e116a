"""Callers by themselves: checks that tell of refusals, streams whose key was revoked, and producers of one owner."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.model import Batch, Pattern, parse_topic
from weft.port.access import Caller, KeyAccess, KeyCaller, OpenAccess, Shown, bound_producer
from weft.security import (
    SALT_BYTES,
    SECRET_BYTES,
    Acl,
    Authenticator,
    Cause,
    KeyRequest,
    KeyStore,
    NotAllowed,
    Refused,
    Secret,
    Unauthenticated,
    create_key,
    revoke_key,
)

TOPIC = parse_topic("plant.temp")


def shown(key: str | None = None, certificate: bytes | None = None) -> Shown:
    return Shown("10.0.0.1", None if key is None else Secret(key), certificate)


def test_refusals_are_told_of_with_the_one_who_was_refused() -> None:
    told: list[tuple[Cause, str]] = []
    caller = Caller(Acl("key k3", publish=(Pattern("plant.>"),)), lambda error, who: told.append((error.cause, who)))
    caller.check_publish(TOPIC)
    checks: list[Callable[[], None]] = [
        lambda: caller.check_publish(parse_topic("other")),
        lambda: caller.check_subscribe(Pattern("plant.>")),
        lambda: caller.check_admin("see the status"),
    ]
    for check in checks:
        with pytest.raises(NotAllowed, match="with key k3"):
            check()
    assert told == [(Cause.PUBLISH, "key k3"), (Cause.SUBSCRIBE, "key k3"), (Cause.ADMIN, "key k3")]
    gone = Unauthenticated(Cause.REVOKED_KEY, "key k3 was revoked")
    caller.expel(gone)
    with pytest.raises(Unauthenticated, match="was revoked"):
        caller.check_publish(TOPIC)
    assert len(told) == 3, "who is gone was told of once, elsewhere"


async def test_everybody_may_do_everything_on_a_node_without_protection() -> None:
    access = OpenAccess()
    caller = await access.admit_untrusted(shown())
    with access.watching(caller, lambda _: None):
        caller.check_publish(TOPIC)
        for pattern in (">", "*.x", "weft.>"):
            caller.check_subscribe(Pattern(pattern))
        caller.check_admin("see the status")


@pytest.mark.req("SEC-02")
async def test_open_streams_end_when_their_key_does(tmp_path: Path) -> None:
    wanted = KeyRequest("test", publish=(">",))
    record, key = create_key(tmp_path, wanted, secrets.token_bytes(SECRET_BYTES + SALT_BYTES), 1.0)
    store = KeyStore(tmp_path)
    authenticator = Authenticator(store, b"k" * 32, clock=lambda: 0.0, wall_clock=lambda: 1_800_000_000.0)
    told: list[Cause] = []
    access = KeyAccess(authenticator, "weft", lambda error, who: told.append(error.cause), True)
    with pytest.raises(Refused, match="a certificate of mesh weft is needed, and there is none"):
        await access.admit_untrusted(shown(key.reveal()))
    principal = await authenticator.authenticate_untrusted(Secret(key.reveal()), "10.0.0.1")
    caller = KeyCaller(principal, lambda error, who: None)
    ended: list[Refused] = []
    with access.watching(caller, ended.append):
        access.look()
        assert not ended
        revoke_key(tmp_path, record.id)
        await store.look()
        access.look()
        assert [str(error) for error in ended] == [f"key {record.id} was revoked"]
    access.look()
    assert len(ended) == 1
    assert told == [Cause.CERTIFICATE, Cause.REVOKED_KEY]


ME, YOU = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.req("SEC-03")
def test_a_producer_is_another_one_for_everybody() -> None:
    ids = (b"p" * 16, b"q" * 16)
    found = {bound_producer(producer, owner) for producer in ids for owner in (ME, YOU)}
    assert len(found) == 4
    assert not found & set(ids)
    seen = bound_producer(ids[0], ME)
    assert bound_producer(seen, ME) != seen != bound_producer(seen, YOU), "who learns it has nothing to publish with"


def test_the_rest_of_a_batch_stays() -> None:
    def known_as(producer: bytes) -> bytes:
        return bound_producer(producer, ME)

    for count in (1, 2, 65, 500):  # a few, and so many that Arrow reads them
        batch = Batch.from_columns([b"a" * 200] * count, 7, producer=b"p" * 16, sequence=9)
        found = Batch.read_untrusted(batch.with_base_offset(5).data, known_as)
        assert (list(found), found.sequence, found.producer) == (list(batch), 9, bound_producer(b"p" * 16, ME))
        assert found.base_offset == 0, "it has yet to be placed"
        again = Batch.read_untrusted(found.data)
        assert (again.producer, again.body_crc, again.data) == (found.producer, batch.body_crc, found.data)
        assert Batch.read_untrusted(found.data_at(3)).base_offset == 3
    unnumbered = Batch.from_columns([b"a"], 7)
    assert Batch.read_untrusted(unnumbered.data, known_as) == unnumbered
