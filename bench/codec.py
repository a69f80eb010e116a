"""Rates of every codec on one core, scalar and columnar, beside the cost of the cryptography alone.

make bench                        # a table
.venv/bin/python bench/codec.py --markdown
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

import coincurve
import pyarrow as pa
from bench.harness import Case, measure, report
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from nacl.bindings import crypto_sign_open

from weft.model import Batch, Event, NodeId, parse_topic
from weft.model.stream import Epoch, Position, Stream
from weft.wire import coaty, emm, emm_compact, exmp
from weft.wire.emm import columnar
from weft.wire.emm.replay import REPLAY_CACHE_MAX
from weft.wire.emm_compact import columnar as compact_columnar
from weft.wire.libp2p import PrivateKey, floodsub
from weft.wire.libp2p.mplex import Mplex
from weft.wire.libp2p.secio.channel import SecureChannel
from weft.wire.libp2p.secio.suite import CipherName, Exchange, HashName, Suite, stretch
from weft.wire.mesh.frames import read_peer_message_untrusted, write_peer_message
from weft.wire.mesh.peerlink_pb2 import PeerAcks, PeerMessage
from weft.wire.mesh.streams import read_position_untrusted, stream_position
from weft.wire.recent import Recent

NODE = UUID("00112233-4455-6677-8899-aabbccddeeff")
SECRET, SEED, KEY_ID = b"s" * 32, bytes(32), b"key1"
NOW_S = 1_700_000_000
ROWS = 65_536


def each(name: str, values: Sequence[Any], work: Callable[[Any], object], **more: Any) -> Case:
    """A case that works on one value after the other, so that nothing is cached for a single packet."""

    def run() -> None:
        for value in values:
            work(value)

    return Case(name, run, len(values), **more)


def emm_cases() -> list[Case]:
    coded, signer = emm.Credentials(KEY_ID, hmac_key=SECRET), emm.SigningKey(SEED)
    signed = emm.Credentials(KEY_ID, signing_key=signer)
    drafts = [emm.draft_event(n, NOW_S, f"plant.line{n % 50}.temp", n, n / 8, node_id=NODE) for n in range(1000)]
    packets = [emm.build(draft, coded) for draft in drafts]
    jsons = [emm.build(emm.draft_event(n, NOW_S, "plant.temp", {"t": n / 8}, node_id=NODE), coded) for n in range(1000)]
    signatures = [emm.build(draft, signed) for draft in drafts]
    trust = emm.TrustStore()
    trust.add_hmac_key(NODE, KEY_ID, SECRET)
    trust.add_public_key(NODE, KEY_ID, signer.public_key)
    marks, numbers = Recent[bytes](REPLAY_CACHE_MAX), count()

    def verify(data: bytes) -> emm.Verdict:
        return emm.authenticate(emm.parse_untrusted(data), trust)

    def receive(data: bytes) -> emm.Verdict:
        packet = emm.parse_untrusted(data)
        verdict = emm.authenticate(packet, trust)
        mark = emm.replay_mark(NODE.bytes, next(numbers))
        if not marks.holds(mark, NOW_S):
            marks.add(mark, packet.fresh_at_s + 300, NOW_S)
        return verdict

    canonical = [emm.canonical_bytes(emm.parse_untrusted(packet)) for packet in packets]
    opened = [(packet[-64:] + emm.canonical_bytes(emm.parse_untrusted(packet))) for packet in signatures]
    column, json_column = pa.array(packets * (ROWS // 1000)), pa.array(jsons * (ROWS // 1000))
    return [
        each("HMAC-SHA256 alone", canonical, lambda data: hmac.digest(SECRET, data, "sha256"), note="limit"),
        each("Ed25519 verification alone", opened, lambda d: crypto_sign_open(d, signer.public_key), note="limit"),
        each("EMM parse", packets, emm.parse_untrusted, goal=150_000, note="name, int, float, node id, key id, HMAC"),
        each("EMM parse with a JSON object", jsons, emm.parse_untrusted),
        each("EMM parse, HMAC verified", packets, verify, goal=100_000),
        each("EMM parse, HMAC verified, replay cache", packets, receive),
        each("EMM parse, Ed25519 verified", signatures, verify),
        each("EMM build with HMAC", drafts, lambda draft: emm.build(draft, coded), note="parses what it built"),
        Case("EMM columnar decode", lambda: columnar.decode_column(column), len(column), goal=2_000_000),
        Case("EMM columnar decode with JSON", lambda: columnar.decode_column(json_column), len(json_column)),
    ]


def compact_cases() -> list[Case]:
    signer = emm_compact.Signer(SECRET, SEED)
    ring = emm_compact.KeyRing(group_keys=(SECRET,))
    packets = [
        emm_compact.seal(
            emm_compact.Header(emm_compact.EventType.NOTIFICATION, n, 1, n),
            emm_compact.Notification(
                emm_compact.Priority.INFO, emm_compact.Format.PLAIN_TEXT, b"Hello, mesh number %d" % n
            ),
            signer,
        ).raw
        for n in range(1000)
    ]
    column = pa.array(packets * (ROWS // 1000))
    decode, verify = emm_compact.decode_untrusted, emm_compact.verify_untrusted
    return [
        each("EMM-C decode, notification", packets, decode),
        each("EMM-C decode, HMAC verified", packets, lambda data: verify(decode(data), ring)),
        Case("EMM-C columnar decode", lambda: compact_columnar.decode_column(column), len(column)),
    ]


def exmp_cases() -> list[Case]:
    settings = exmp.Settings()
    client, server = exmp.Connection(settings, 0.0), exmp.Connection(settings, 0.0)
    server.receive_data(client.data_to_send(), 0.0)
    client.receive_data(server.data_to_send(), 0.0)

    def echo() -> None:
        """64 pipelined requests there, 64 responses back."""
        for number in range(64):
            client.send_request("$echo", {"n": number})
        events = server.receive_data(client.data_to_send(), 0.0)
        while events:
            event = events.pop(0)
            assert isinstance(event, exmp.RequestReceived)
            events += server.send_response(event.id, exmp.Success(event.operation.data), 0.0)
        client.receive_data(server.data_to_send(), 0.0)

    return [Case("EXMP echo, both sides", echo, 64, "round trips", note="four messages coded each")]


def batch_cases() -> list[Case]:
    cases = []
    for size in (1, 100, 1000):
        payloads = [b"x" * 100] * size
        stamps = list(range(size))
        events = [Event(payload, timestamp_us=stamp) for payload, stamp in zip(payloads, stamps, strict=True)]
        data = Batch.from_columns(payloads, stamps).data
        goal = 5_000_000 if size == 1000 else None
        works: dict[str, Callable[[], object]] = {
            "build from columns": partial(Batch.from_columns, payloads, stamps),
            "build from Events": partial(Batch.from_events, events),
            "read untrusted": partial(Batch.read_untrusted, data),
            "to Events": partial(_to_events, data),
        }
        for name, work in works.items():
            cases.append(Case(f"batch of {size}: {name}", work, size, "events", goal if "columns" in name else None))
    placed = Batch.from_columns([b"x" * 100] * 1000, 0)
    cases.append(Case("batch of 1000: place at an offset", lambda: placed.with_base_offset(7), 1000, "events"))
    return cases


def _to_events(data: bytes) -> list[Event]:
    return list(Batch.read_stored(data))


def mesh_cases() -> list[Case]:
    position = Position(Stream(parse_topic("plant.line1.temp"), NodeId("node-a"), 0), Epoch(1), 42)
    frame = write_peer_message(PeerMessage(acks=PeerAcks(synced=[stream_position(position)] * 64)))

    def read() -> None:
        for one in read_peer_message_untrusted(frame).acks.synced:
            read_position_untrusted(one)

    return [Case("peer frame of 64 acks, to positions", read, 64, "positions")]


def libp2p_cases() -> list[Case]:
    cases = []
    identities = {
        "RSA-2048": PrivateKey(rsa.generate_private_key(65537, 2048)),
        "Ed25519": PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(SEED)),
        "secp256k1": PrivateKey(coincurve.PrivateKey.from_int(7)),
    }
    for name, identity in identities.items():
        message = floodsub.sign(identity, "coaty/1/ns/CHNx", b"x" * 200, bytes(8))
        cases += [
            Case(
                f"Floodsub sign, {name}", partial(floodsub.sign, identity, "t", b"x" * 200, bytes(8)), unit="messages"
            ),
            Case(f"Floodsub verify, {name}", partial(floodsub.distrust, message), unit="messages"),
        ]
    suite = Suite(Exchange.P256, CipherName.AES256, HashName.SHA256)
    ours, theirs = stretch(suite, bytes(32))
    sender, receiver = SecureChannel(suite.hash, ours, theirs), SecureChannel(suite.hash, theirs, ours)
    left, right = Mplex(), Mplex()
    stream, opening = left.open_stream()
    right.receive_data(opening)

    def carry() -> None:
        for plain in receiver.receive_data(sender.send(left.send(stream, b"x" * 1000))):
            right.receive_data(plain)

    return [*cases, Case("SECIO and MPLEX, 1,000 bytes there", carry, unit="frames")]


def coaty_cases() -> list[Case]:
    source = "11111111-1111-4111-8111-111111111111"
    thing = {"objectId": source, "objectType": "plant.Thing", "coreType": "CoatyObject", "name": "pump", "level": 7}
    message = coaty.Message(source, coaty.Advertise(thing))
    payload = coaty.encode_payload(message)
    topic = coaty.topics_of("plant", message)[0]
    text = str(topic)
    return [
        Case("Coaty Advertise, encode", lambda: coaty.encode_payload(message), unit="messages"),
        Case(
            "Coaty Advertise, topic and payload decode",
            lambda: coaty.decode_event_untrusted(coaty.parse_topic_untrusted(text), payload),
            unit="messages",
        ),
    ]


def main() -> None:
    cases = [
        *emm_cases(),
        *compact_cases(),
        *exmp_cases(),
        *batch_cases(),
        *mesh_cases(),
        *coaty_cases(),
        *libp2p_cases(),
    ]
    measure(cases)
    report(cases, "codec")


if __name__ == "__main__":
    main()
