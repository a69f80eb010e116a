"""EMM-C datagrams, judged in bulk as the codec judges them one by one."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.emm.devices import NOW, SOURCE, arrived, forged, rows_of
from tests.wire.emm_compact.packets import datagrams
from weft.gateway.emm.compact_judge import CompactJudge
from weft.gateway.emm.names import NameRights, NamesBySender
from weft.gateway.emm.rows import Judged
from weft.gateway.emm.settings import Payload
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC, TopicMap
from weft.model import Pattern
from weft.wire import emm_compact as wire
from weft.wire.emm_compact import (
    Command,
    EventDigest,
    Field,
    FieldType,
    Format,
    Header,
    Heartbeat,
    Join,
    KeyRing,
    Notification,
    Priority,
    PropagationMap,
    RateSignal,
    Signer,
)
from weft.wire.emm_compact.codes import Ecn, SupportedTypes
from weft.wire.reject import BadPacket, Reject
from weft.wire.seen import SALT_BYTES, Seen

GROUP, OLD_GROUP, SEED = b"g" * 32, b"o" * 32, b"e" * 32
SIGNER = Signer(GROUP, SEED)
NODE = bytes(range(16))
RING = KeyRing((OLD_GROUP, GROUP), {NODE: (SIGNER.public_key,)})
EPOCH = NOW % 65536


def judge_of(
    ring: KeyRing = RING, payload: Payload = Payload.VALUE, names: NamesBySender | None = None
) -> CompactJudge:
    return CompactJudge(ring, Seen(bytes(range(SALT_BYTES))), TopicMap(), NameRights(names), payload)


def packet(body: wire.Body, offset: int = 0, epoch: int = EPOCH, signer: Signer = SIGNER) -> bytes:
    return wire.seal(Header(body.TYPE, 7, epoch, offset), body, signer).raw


def note(offset: int = 0, epoch: int = EPOCH, signer: Signer = SIGNER) -> bytes:
    return packet(Notification(Priority.WARNING, Format.PLAIN_TEXT, b"hot"), offset, epoch, signer)


BEAT = Heartbeat(NODE, 5, EventDigest(), RateSignal(Ecn.ECT_0, 1, 2), PropagationMap(1, 2, b"abcd"))
JOIN = Join(NODE, SupportedTypes.NOTIFICATION, 10, 10, b"")
COMMAND = Command("stop", b"", (Field(FieldType.NODE_ID, NODE),))


def reasons(judged: Judged) -> list[Reject]:
    return [each.reason for each in judged.rejected]


@pytest.mark.req("EMC-05", "EMC-06")
def test_a_notification_becomes_a_row() -> None:
    (row,) = rows_of(judge_of().sort_out(arrived(note(offset=3)), NOW).accepted)
    assert row == {
        "topic": "emm.notification.warning",
        "payload": b"hot",
        "key": None,
        "time_us": NOW * 1_000_000,
        "emm-protocol": "emm-c",
        "emm-message-id": f"0007{EPOCH:04x}0003",
        "emm-verdict": "group",
        "emm-source": SOURCE,
        "emm-value": "plain-text",
    }


def test_heartbeats_and_joins_go_where_emms_go() -> None:
    judge = judge_of()
    beat, join = packet(BEAT, 1), packet(JOIN, 2)
    first = judge.sort_out(arrived(beat, join), NOW)
    then = judge.verify(first.waiting, NOW)
    rows = rows_of(first.accepted + then.accepted)
    assert [(row["topic"], row["payload"], row["emm-verdict"]) for row in rows] == [
        (HEARTBEAT_TOPIC, beat, "group"),
        (HELLO_TOPIC, join, "sender"),
    ]
    assert rows[0]["emm-node-id"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.req("EMC-07", "EMC-12", "SEE-03")
def test_commands_become_rows_once_their_signature_is_checked() -> None:
    judge = judge_of()
    trace = Field(FieldType.TRACE_ID, bytes(range(16)))
    command = packet(Command("stop", b"now", (Field(FieldType.NODE_ID, NODE), trace)))
    first = judge.sort_out(arrived(command), NOW)
    assert (first.accepted, first.compact) == ((), ())
    (row,) = rows_of(judge.verify(first.waiting, NOW).accepted)
    assert row == {
        "topic": "emm.command.stop",
        "payload": b"now",
        "key": b"00010203-0405-0607-0809-0a0b0c0d0e0f",
        "time_us": NOW * 1_000_000,
        "emm-protocol": "emm-c",
        "emm-node-id": "00010203-0405-0607-0809-0a0b0c0d0e0f",
        "emm-message-id": f"0007{EPOCH:04x}0000",
        "emm-verdict": "sender",
        "emm-source": SOURCE,
        "emm-value": "binary",
        "emm-trace-id": "00010203-0405-0607-0809-0a0b0c0d0e0f",
        "traceparent": "00-000102030405060708090a0b0c0d0e0f-08090a0b0c0d0e0f-01",
    }


@pytest.mark.req("EMC-10")
def test_parameters_are_decompressed_and_decoded() -> None:
    content = "5 °C; " * 40
    more = (
        Field(FieldType.NODE_ID, NODE),
        Field(FieldType.PAYLOAD_ENCODING, b"\x06"),
        Field(FieldType.COMPRESSION, b"\x03"),
    )
    good = packet(Command("log level", zlib.compress(content.encode("cp1252")), more), 1)
    bad = packet(Command("log level", b"junk", more), 2)
    judged = judge_of().verify(arrived(good, bad), NOW)
    (row,) = rows_of(judged.accepted)
    assert (row["topic"], row["payload"].decode(), row["emm-value"], row["emm-event"]) == (
        "emm.command.log_level",
        content,
        "string",
        "command.log level",
    )
    assert [(each.data, each.reason) for each in judged.rejected] == [(bad, Reject.COMPRESSION)]
    assert [each.data for each in judged.compact] == [good, bad], "others may be able to read it"


@pytest.mark.req("EMC-12")
def test_what_goes_on_is_what_was_taken_and_nothing_else() -> None:
    judge = judge_of()
    good = [note(1), packet(BEAT, 2)]
    signed = [packet(JOIN, 3), packet(COMMAND, 4)]
    first = judge.sort_out(arrived(*good, forged(note(5)), *signed, good[0]), NOW)
    assert [each.data for each in first.compact] == good
    tampered = signed[0][:20] + bytes((signed[0][20] ^ 1,)) + signed[0][21:]
    then = judge.verify([*first.waiting, *arrived(tampered)], NOW)
    assert [each.data for each in then.compact] == signed


@pytest.mark.req("EMC-05")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (forged(note()), Reject.BAD_HMAC),
        (note(signer=Signer(b"x" * 32, SEED)), Reject.BAD_HMAC),
        (note(epoch=(EPOCH - 301) % 65536), Reject.STALE),
        (note(epoch=(EPOCH + 121) % 65536), Reject.FUTURE),
        (note()[:-1], Reject.LENGTH_MISMATCH),
        (b"\x20", Reject.TRUNCATED),
    ],
)
def test_refusals(data: bytes, reason: Reject) -> None:
    assert reasons(judge_of().sort_out(arrived(data), NOW)) == [reason]


def test_any_of_the_group_keys_will_do_and_without_one_none() -> None:
    old = note(signer=Signer(OLD_GROUP, SEED))
    assert len(rows_of(judge_of().sort_out(arrived(old, note(1)), NOW).accepted)) == 2
    judge = judge_of()
    judge.trust_changed(KeyRing())
    assert reasons(judge.sort_out(arrived(old), NOW)) == [Reject.UNKNOWN_KEY]


@pytest.mark.req("EMC-13")
def test_seen_once_and_not_again_even_when_the_cache_has_forgotten() -> None:
    judge = judge_of()
    first, same_triple = note(), packet(Notification(Priority.INFO, Format.BINARY, b"other"))
    assert reasons(judge.sort_out(arrived(first, same_triple, first), NOW)) == [Reject.REPLAY]
    assert reasons(judge.sort_out(arrived(first), NOW + 1000)) == [Reject.STALE]
    join = packet(JOIN)
    waiting = judge.sort_out(arrived(join), NOW).waiting
    assert reasons(judge.verify([*waiting, *waiting], NOW)) == [Reject.REPLAY]
    assert reasons(judge.sort_out(arrived(join), NOW)) == [Reject.REPLAY]


def test_a_join_that_is_forged_is_found_out() -> None:
    judge = judge_of()
    join = packet(JOIN)
    waiting = judge.sort_out(arrived(join[:20] + bytes((join[20] ^ 1,)) + join[21:]), NOW).waiting
    assert reasons(judge.verify(waiting, NOW)) == [Reject.BAD_SIGNATURE]


def test_datagrams_as_payloads() -> None:
    data = note()
    (row,) = rows_of(judge_of(payload=Payload.DATAGRAM).sort_out(arrived(data), NOW).accepted)
    assert (row["payload"], row["emm-value"]) == (data, "datagram")


@pytest.mark.req("SEC-03")
@pytest.mark.parametrize("how", ["node id", "fingerprint"])
def test_a_command_has_a_name_that_its_sender_may_use(how: str) -> None:
    """However it names its sender. It goes on to others: they decide for themselves."""
    mark = wire.fingerprint(SIGNER.public_key)
    sender = Field(FieldType.NODE_ID, NODE) if how == "node id" else Field(FieldType.NODE_FINGERPRINT, mark)
    patterns = [(Pattern("command.stop"),)]
    ring = KeyRing((GROUP,), {NODE: (SIGNER.public_key,)}, {mark: (SIGNER.public_key,)})
    judge = judge_of(ring, names={NODE: patterns, mark: patterns})
    stop, start = (
        packet(Command(name, b"", (sender,)), offset=number) for number, name in enumerate(("stop", "start"))
    )
    judged = judge.verify(judge.sort_out(arrived(stop, start), NOW).waiting, NOW)
    assert [row["topic"] for row in rows_of(judged.accepted)] == ["emm.command.stop"]
    assert [(each.data, each.reason) for each in judged.rejected] == [(start, Reject.NAME)]
    assert [each.data for each in judged.compact] == [stop, start]


def codec_says(data: bytes) -> Reject | None:
    try:
        wire.verify_untrusted(wire.decode_untrusted(data), RING)
    except BadPacket as error:
        return error.reason
    return None


@settings(max_examples=50)
@given(st.lists(datagrams() | st.binary(min_size=1, max_size=60), min_size=1, max_size=12, unique=True))
def test_whatever_comes_is_refused_for_the_codecs_reason_or_for_its_time(packets: list[bytes]) -> None:
    judge = judge_of()
    first = judge.sort_out(arrived(*packets), NOW)
    then = judge.verify(first.waiting, NOW) if first.waiting else Judged()
    refused = {each.data: each.reason for each in first.rejected + then.rejected}
    for data in packets:  # nobody has the keys of these
        assert refused[data] in (codec_says(data), Reject.STALE, Reject.FUTURE, Reject.EXPIRED)
