"""``make demo``: what Weft can do today, in about a minute. Every line shown is made on the spot."""

from __future__ import annotations

import secrets
import time
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.rule import Rule

from tools.demo_mesh import show_mesh
from tools.demo_pipeline import show_pipeline
from weft.cli.packet.input import Captured
from weft.cli.packet.output import print_tree
from weft.model import Batch, Event, matches, parse_pattern, parse_topic
from weft.wire import emm
from weft.wire.emm.columnar import decode_column
from weft.wire.emm.describe import describe_untrusted
from weft.wire.reject import BadPacket

console = Console(highlight=False)
DATAGRAMS = 200_000


def say(text: str) -> None:
    console.print(f"\n{text}", style="bold")


def device_sends_an_event(node: emm.Credentials, receiver: emm.Judge) -> bytes:
    console.print(Rule("A device sends an authenticated datagram"))
    draft = emm.draft_event(secrets.randbits(32), int(time.time()), "plant.line1.temp", 42, 3.5, node_id=NODE)
    packet = emm.build(draft, node)
    print_tree(describe_untrusted(packet), Captured(packet))
    received = receiver.receive_datagram(packet, b"127.0.0.1:4711", time.time())
    say(f"The receiver takes it: {received.packet.event_name!r}, {received.verdict}.")
    return packet


def attackers_try(packet: bytes, receiver: emm.Judge) -> None:
    console.print(Rule("What an attacker could send"))
    tampered = bytearray(packet)
    tampered[0x22] ^= 1
    for name, attempt in (
        ("the same packet again", packet),
        ("a changed value", bytes(tampered)),
        ("half a packet", packet[:60]),
    ):
        try:
            receiver.receive_datagram(attempt, b"127.0.0.1:4711", time.time())
            raise AssertionError(f"{name} was taken")
        except BadPacket as error:
            console.print(f"  {name:<22} refused as [red]{error.reason}[/]: {error}")


def events_travel_in_batches() -> None:
    console.print(Rule("Events travel in batches, and batches are Arrow"))
    now_us = time.time_ns() // 1000
    events = [Event(b'{"t": %d}' % n, key=b"pump-%d" % (n % 3), timestamp_us=now_us + n) for n in range(1000)]
    batch = Batch.read_untrusted(Batch.from_events(events).data)
    say(f"{len(batch):,} events are {len(batch.data):,} bytes; every bound and the checksum were checked on reading.")
    console.print(pc.value_counts(batch.keys).to_pylist())
    pattern, topic = parse_pattern("plant.*.temp"), parse_topic("plant.line1.temp")
    say(f'"{pattern}" {"matches" if matches(pattern, topic) else "does not match"} "{topic}".')


def gateways_decode_columns(node: emm.Credentials) -> None:
    console.print(Rule("A gateway or Spark decodes a column of datagrams at once"))
    made = [
        emm.build(emm.draft_event(n, 0, f"plant.line{n % 4}.temp", n, node_id=NODE), node) if n % 100 else b"garbage"
        for n in range(2000)
    ]
    column = pa.array(made * (DATAGRAMS // len(made)))
    begin = time.perf_counter()
    table = decode_column(column)
    elapsed_s = time.perf_counter() - begin
    say(f"{len(column):,} datagrams in {elapsed_s:.2f} s, {len(column) / elapsed_s:,.0f} a second:")
    for row in table.group_by(["reject", "event_name"]).aggregate([([], "count_all")]).to_pylist():
        console.print(f"  {row['count_all']:>7,}  {row['event_name'] or 'rejected: ' + row['reject']}")


NODE = uuid4()

if __name__ == "__main__":
    show_mesh(console, say)
    secret = secrets.token_bytes(32)
    trust = emm.TrustStore()
    trust.add_hmac_key(NODE, b"key1", secret)
    credentials, gateway = emm.Credentials(b"key1", hmac_key=secret), emm.Judge(trust)
    attackers_try(device_sends_an_event(credentials, gateway), gateway)
    events_travel_in_batches()
    gateways_decode_columns(credentials)
    show_pipeline(console, say)
    say("Next: start a mesh of your own (README.md), or take packets apart with `.venv/bin/weft packet decode --help`.")
