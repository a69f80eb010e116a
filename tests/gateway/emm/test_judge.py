"""Datagrams become rows of events or are refused, one by one or by the thousand. The judge itself is ``wire.emm``'s."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from uuid import UUID

import pytest

from tests.gateway.emm import devices
from tests.gateway.emm.devices import KEY_ID, NOW, SOURCE, Device, arrived, forged, judge_of, rows_of
from weft.gateway.emm.judge import EmmJudge
from weft.gateway.emm.rows import Judged
from weft.gateway.emm.settings import Payload
from weft.gateway.emm.topics import HEARTBEAT_TOPIC, HELLO_TOPIC
from weft.model import Pattern
from weft.wire import emm, tlv
from weft.wire.emm.fields import HEADER, Field
from weft.wire.reject import Reject

SENSOR = Device(1)
SIGNER = Device(2, signs=True)


@pytest.fixture(params=[0, 1000], ids=["in bulk", "one by one"], autouse=True, scope="module")
def few_max(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of this file is for both ways."""
    devices.settings.few_max = request.param
    yield
    devices.settings.few_max = 0


def reasons(judged: Judged) -> list[Reject]:
    return [each.reason for each in judged.rejected]


def verified(judge: EmmJudge, *packets: bytes, now_s: float = NOW) -> Judged:
    """All the way: whatever waits for a signature is checked, too."""
    first = judge.sort_out(arrived(*packets), now_s)
    then = judge.verify(first.waiting, now_s) if first.waiting else Judged()
    return Judged(first.accepted + then.accepted, first.rejected + then.rejected)


@pytest.mark.req("EMM-14")
def test_an_event_becomes_a_row_with_all_that_is_known_of_it() -> None:
    packet = SENSOR.event("plant.temp", {"celsius": 21.5}, number=0xABC)
    (row,) = rows_of(judge_of(SENSOR).sort_out(arrived(packet), NOW).accepted)
    assert row == {
        "topic": "emm.plant.temp",
        "payload": b'{"celsius":21.5}',
        "key": str(SENSOR.node_id).encode(),
        "time_us": NOW * 1_000_000,
        "emm-protocol": "emm",
        "emm-node-id": str(SENSOR.node_id),
        "emm-key-id": KEY_ID.hex(),
        "emm-message-id": "00000abc",
        "emm-verdict": "verified",
        "emm-source": SOURCE,
        "emm-value": "json",
    }


@pytest.mark.req("EMM-15")
def test_signatures_wait_and_are_checked_in_a_second_step() -> None:
    judge = judge_of(SIGNER)
    good = SIGNER.event()
    first = judge.sort_out(arrived(good, forged(SIGNER.event())), NOW)
    assert (first.accepted, first.rejected, len(first.waiting)) == ((), (), 2)
    then = judge.verify(first.waiting, NOW)
    assert [row["emm-verdict"] for row in rows_of(then.accepted)] == ["verified"]
    assert reasons(then) == [Reject.BAD_SIGNATURE]


@pytest.mark.req("EMM-15")
@pytest.mark.parametrize("few_then", [0, 1000])
def test_with_both_the_hmac_counts_whichever_way_each_step_goes(few_then: int) -> None:
    store = emm.TrustStore()
    SENSOR.add_to(store)
    store.add_public_key(SENSOR.node_id, KEY_ID, emm.SigningKey(b"e" * 32).public_key)
    for secret, expected in ((b"s" * 32, []), (b"x" * 32, [Reject.BAD_HMAC])):
        both = emm.Credentials(KEY_ID, hmac_key=secret, signing_key=emm.SigningKey(b"e" * 32))
        packet = emm.build(emm.draft_event(9, NOW, "n", node_id=SENSOR.node_id), both)
        judge = judge_of(store=store)
        first = judge.sort_out(arrived(packet), NOW)
        judge._few_max = few_then
        then = judge.verify(first.waiting, NOW) if first.waiting else Judged()
        assert reasons(first) + reasons(then) == expected


FAULTS = {
    "forged": (forged(SENSOR.event()), Reject.BAD_HMAC),
    "unknown key": (Device(9).event(), Reject.UNKNOWN_KEY),
    "unknown signer": (Device(9, signs=True).event(), Reject.UNKNOWN_KEY),
    "stale": (SENSOR.event(at_s=NOW - 301), Reject.STALE),
    "future": (SENSOR.event(at_s=NOW + 121), Reject.FUTURE),
    "unsigned": (emm.build(emm.draft_event(1, NOW, "n")), Reject.UNSIGNED),
    "cut": (SENSOR.event()[:-1], Reject.LENGTH_MISMATCH),
    "empty": (b"", Reject.TRUNCATED),
    "key in the packet": (
        emm.build(
            emm.draft_event(3, NOW, "n", node_id=SIGNER.node_id),
            emm.Credentials(signing_key=emm.SigningKey(b"x" * 32), carry_public_key=True),
        ),
        Reject.UNTRUSTED_KEY,
    ),
}


@pytest.mark.req("EMM-18", "EMM-20")
@pytest.mark.parametrize("name", list(FAULTS))
def test_what_is_refused_without_a_signature_check(name: str) -> None:
    packet, reason = FAULTS[name]
    judged = judge_of(SENSOR, SIGNER).sort_out(arrived(packet), NOW)
    assert (judged.accepted, judged.waiting, reasons(judged)) == ((), (), [reason])
    assert judged.rejected[0][:2] == (packet, SOURCE)


@pytest.mark.req("EMM-19")
def test_a_packet_is_taken_once_be_it_in_one_block_or_in_the_next() -> None:
    judge = judge_of(SENSOR, SIGNER)
    packet, signed = SENSOR.event(), SIGNER.event()
    assert reasons(judge.sort_out(arrived(packet, packet), NOW)) == [Reject.REPLAY]
    assert reasons(judge.sort_out(arrived(packet), NOW + 299)) == [Reject.REPLAY]
    assert reasons(judge.sort_out(arrived(packet), NOW + 301)) == [Reject.STALE]
    assert reasons(verified(judge, signed, signed)) == [Reject.REPLAY]
    assert judge.sort_out(arrived(signed), NOW).waiting == ()  # no second look at the signature


@pytest.mark.req("EMM-19")
def test_a_forgery_does_not_keep_the_real_packet_out() -> None:
    judge = judge_of(SENSOR, SIGNER)
    for packet in (SENSOR.event(), SIGNER.event()):
        verified(judge, forged(packet))
        assert len(rows_of(verified(judge, packet).accepted)) == 1


@pytest.mark.req("EMM-17")
@pytest.mark.parametrize(
    ("policy", "verdict"),
    [(emm.TrustPolicy.FIRST_USE, "verified"), (emm.TrustPolicy.ANY, "unverified-identity")],
)
def test_a_key_inside_the_packet_is_worth_what_the_policy_says(policy: emm.TrustPolicy, verdict: str) -> None:
    draft = emm.draft_event(3, NOW, "n", node_id=UUID(int=77))
    credentials = emm.Credentials(signing_key=emm.SigningKey(b"x" * 32), carry_public_key=True)
    (row,) = rows_of(verified(judge_of(policy=policy), emm.build(draft, credentials)).accepted)
    assert row["emm-verdict"] == verdict


def test_unsigned_packets_are_taken_if_asked_for_and_told_apart_by_their_source() -> None:
    judge = judge_of(unsigned_allowed=True)
    packet = emm.build(emm.draft_event(5, NOW, "n"))
    first = judge.sort_out(arrived(packet), NOW)
    again = judge.sort_out(arrived(packet), NOW)
    other = judge.sort_out(arrived(packet, source="10.0.0.10:4700"), NOW)
    assert [row["emm-verdict"] for row in rows_of(first.accepted + other.accepted)] == ["unsigned", "unsigned"]
    assert "emm-node-id" not in rows_of(first.accepted)[0]
    assert reasons(again) == [Reject.REPLAY]


@pytest.mark.req("EMM-19")
def test_an_unsigned_packet_with_somebodys_id_does_not_keep_out_theirs() -> None:
    judge = judge_of(SENSOR, unsigned_allowed=True)
    draft = emm.draft_event(7, NOW, "n", node_id=SENSOR.node_id)
    assert reasons(judge.sort_out(arrived(emm.build(draft)), NOW)) == []
    assert reasons(judge.sort_out(arrived(emm.build(draft, SENSOR.credentials)), NOW)) == []


@pytest.mark.req("EMM-19")
@pytest.mark.parametrize("device", [SENSOR, SIGNER], ids=["hmac", "signature"])
def test_a_strangers_signature_with_somebodys_id_does_not_keep_out_theirs(device: Device) -> None:
    judge = judge_of(SENSOR, SIGNER, policy=emm.TrustPolicy.ANY)
    draft = emm.draft_event(7, NOW, "n", node_id=device.node_id)
    forgeries = [
        emm.build(draft, emm.Credentials(signing_key=emm.SigningKey(bytes([seed]) * 32), carry_public_key=True))
        for seed in (5, 6)
    ]
    real = emm.build(draft, device.credentials)
    assert [reasons(verified(judge, packet)) for packet in (*forgeries, real)] == [[], [], []]
    again = [reasons(verified(judge, packet)) for packet in (*forgeries, real)]
    assert again == [[Reject.REPLAY]] * 3, "each is taken once"


def test_hellos_and_heartbeats_have_topics_of_their_own_and_stay_datagrams() -> None:
    hello, heartbeat = SENSOR.hello(), SENSOR.heartbeat()
    rows = rows_of(judge_of(SENSOR).sort_out(arrived(hello, heartbeat, SENSOR.event()), NOW).accepted)
    assert [(row["topic"], row["payload"]) for row in rows[1:]] == [(HELLO_TOPIC, hello), (HEARTBEAT_TOPIC, heartbeat)]
    assert rows[0]["topic"] == "emm.plant.temp"


def test_sealed_packets_are_opened_and_those_that_cannot_be_are_refused() -> None:
    bad = SENSOR.event("n", "x" * 200, compressed=True)
    opened = rows_of(judge_of(SENSOR).sort_out(arrived(SENSOR.event("name", "inside", compressed=True)), NOW).accepted)
    assert [(row["topic"], row["payload"], row["emm-value"]) for row in opened] == [("emm.name", b"inside", "string")]
    draft = emm.draft_event(4, NOW, "secret", node_id=SENSOR.node_id)
    seal = emm.Seal(emm.Encryption(emm.Algorithm.AES_256_GCM, b"i" * 12), b"k" * 32)
    sealed = emm.build(draft, SENSOR.credentials, seal=seal)
    judged = judge_of(SENSOR).sort_out(arrived(bad, sealed), NOW)
    assert reasons(judged) == [Reject.UNDECRYPTABLE]
    assert len(rows_of(judged.accepted)) == 1


@pytest.mark.parametrize(
    ("values", "payload", "kind"),
    [
        ((), b"", "none"),
        (("text",), b"text", "string"),
        ((-7,), b"-7", "integer"),
        ((0.1,), b"0.1", "float"),
        ((b"\x00\xff",), b"\x00\xff", "binary"),
        (({"a": 1},), b'{"a":1}', "json"),
        ((1, 2), b"[1,2]", "values"),
        ((b"\x01", {"a": [True]}), b'["AQ==",{"a":[true]}]', "values"),
        ((b"x" * 300,), b"x" * 300, "binary"),
    ],
)
def test_values_as_payloads(values: tuple[object, ...], payload: bytes, kind: str) -> None:
    packets = [SENSOR.event("n", *values), SENSOR.event("n", {"other": "row"})]
    row = rows_of(judge_of(SENSOR).sort_out(arrived(*packets), NOW).accepted)[0]
    assert (row["payload"], row["emm-value"]) == (payload, kind)


def test_datagrams_as_payloads() -> None:
    packet = SENSOR.event("n", 5)
    (row,) = rows_of(judge_of(SENSOR, payload=Payload.DATAGRAM).sort_out(arrived(packet), NOW).accepted)
    assert (row["topic"], row["payload"], row["emm-value"]) == ("emm.n", packet, "datagram")


def test_a_key_that_is_trusted_no_more_is_forgotten() -> None:
    store = emm.TrustStore()
    SENSOR.add_to(store)
    judge = judge_of(store=store)
    assert reasons(judge.sort_out(arrived(SENSOR.event()), NOW)) == []
    store.remove(SENSOR.node_id, KEY_ID)
    judge.trust_changed()
    assert reasons(judge.sort_out(arrived(SENSOR.event()), NOW)) == [Reject.UNKNOWN_KEY]


def test_names_that_cannot_be_topics_are_in_a_header() -> None:
    (row,) = rows_of(judge_of(SENSOR).sort_out(arrived(SENSOR.event("line 1/*", 1)), NOW).accepted)
    assert (row["topic"], row["emm-event"]) == ("emm.line_1/_", "line 1/*")


def with_json(text: bytes, number: int) -> bytes:
    """As a device writes it that does not save blanks."""
    values = [(Field.STRING, b"n"), *((Field.JSON, text[at : at + 255]) for at in range(0, len(text), 255))]
    others = [(Field.NODE_ID, SENSOR.node_id.bytes), (Field.AUTH_KEY_ID, KEY_ID)]
    fields = b"".join(tlv.encode(kind, value) for kind, value in (*values, *others))
    header = HEADER.pack(1, number, 0, emm.EventType.EVENT, NOW, len(fields) + 34)
    return header + fields + tlv.encode(Field.HMAC, hmac.digest(SENSOR.secret, header + fields, "sha256"))


def test_both_ways_make_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [b'{ "a": 1.50 }', b'{ "long": "' + b"x" * 300 + b'" }']
    packets = [
        *(with_json(text, number) for number, text in enumerate(texts, 8)),
        SENSOR.event("plant.temp", {"a": 1}, number=1),
        SENSOR.event("plant temp", b"x" * 300, number=2),
        SENSOR.event("n", 0.1, number=3),
        SENSOR.event("n", "s", "t", number=4, compressed=True),
        SIGNER.event("plant.temp", 7, number=5),
        SENSOR.hello(),
        SENSOR.heartbeat(),
    ]
    found = []
    for few in (0, 1000):
        monkeypatch.setattr(devices.settings, "few_max", few)
        judge = judge_of(SENSOR, SIGNER)
        first = judge.sort_out(arrived(*packets), NOW)
        found.append(rows_of(first.accepted + judge.verify(first.waiting, NOW).accepted))
    assert found[0] == found[1]
    assert len(found[0]) == len(packets)
    assert [row["payload"] for row in found[0][:2]] == texts


@pytest.mark.req("SEC-03")
def test_a_device_uses_only_names_that_fit_its_patterns() -> None:
    names = {SENSOR.node_id.bytes: [(Pattern("plant.*"), Pattern("line_1.>"))]}
    judge = judge_of(SENSOR, SIGNER, names=names)
    good = [SENSOR.event("plant.temp"), SENSOR.event("line 1.door.open"), SENSOR.hello(), SENSOR.heartbeat()]
    bad = [SENSOR.event(name) for name in ("plant", "plant.a.b", "alarm.fire", "line.1")]
    judged = verified(judge, *good, *bad, SIGNER.event("alarm.fire"))
    assert {row["topic"] for row in rows_of(judged.accepted)} == {
        "emm.plant.temp",
        "emm.line_1.door.open",
        HELLO_TOPIC,
        HEARTBEAT_TOPIC,
        "emm.alarm.fire",
    }
    assert [(each.data, each.reason) for each in judged.rejected] == [(each, Reject.NAME) for each in bad]


@pytest.mark.req("SEC-03")
def test_a_name_that_was_sealed_is_looked_at_too() -> None:
    seal = emm.Seal(emm.Encryption(emm.Algorithm.AES_256_GCM, b"i" * 12), b"k" * 32)
    names = {SENSOR.node_id.bytes: [(Pattern("plant.*"),)]}
    judge = judge_of(SENSOR, names=names, find_key=lambda key_id: b"k" * 32)
    good, bad = (
        emm.build(emm.draft_event(number, NOW, name, 1, node_id=SENSOR.node_id), SENSOR.credentials, seal=seal)
        for number, name in ((1, "plant.temp"), (2, "alarm.fire"))
    )
    judged = verified(judge, good, bad)
    assert [row["topic"] for row in rows_of(judged.accepted)] == ["emm.plant.temp"]
    assert [(each.data, each.reason) for each in judged.rejected] == [(bad, Reject.NAME)]


@pytest.mark.req("SEC-03")
def test_a_packet_of_nobody_is_held_to_nobodys_names() -> None:
    """Where unsigned packets are allowed, they need no node id."""
    judge = judge_of(unsigned_allowed=True, names={bytes(16): [(Pattern("plant.*"),)]})
    anonymous = emm.build(emm.draft_event(1, NOW, "alarm.fire"))
    assert len(rows_of(verified(judge, anonymous).accepted)) == 1
