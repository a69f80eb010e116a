"""``bench.peers``: ratios are to the best synced peer, the page has them, the encoders are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import google_crc32c
from bench.figures import TIMES
from bench.peers import kafka_work, mosquitto, rabbitmq
from bench.peers.__main__ import ROWS, Result
from bench.peers.fleet import KINDS
from bench.peers.page import BEGIN, END, write_page

RATES = {"Weft": 50.0, "Redis": 100.0, "NATS": 20.0, "Mosquitto": 400.0}


def results(*found: Result) -> dict[str, Any]:
    systems = [{"name": kind.name, "durability": kind.durability} for kind in KINDS]
    told = {"date": "today", "commit": "abc", "machine": "m", "rounds": 1, "scale": 1.0, "took_s": 1}
    more = {"left_out": {"Kafka": "no java"}, "limits": {"limit: sync": [0.1, "ms", 0.2]}}
    return {**told, **more, "systems": systems, "results": [vars(each) for each in found]}


def test_ratios_are_to_the_best_peer_that_syncs() -> None:
    rate = Result("flood", "/s", False, False, RATES)
    assert rate.ratios["Weft"] == 0.5, "Mosquitto is faster, and syncs nothing"
    latency = Result("lone", "ms", True, False, RATES)
    assert latency.ratios["Weft"] == 2.5
    assert Result("hop", "ms", True, False, {"Weft": 1.0, "Mosquitto": 2.0}).ratios == {}


def test_the_page_has_every_figure_and_keeps_what_is_around(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    found = results(Result("flood & more", "/s", False, False, RATES), Result("lone", "ms", True, False, RATES, ["n"]))
    write_page(json.loads(json.dumps(found)), tmp_path)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert f"| flood & more | 50 /s (0.5 {TIMES}) | 100 /s (1 {TIMES}) |" in text
    assert f"**0.5 {TIMES}** behind" in text and f"**2.5 {TIMES}** behind" in text
    assert "| Kafka | left out: no java |" in text
    for picture in ("peers-latency.svg", "peers-rates.svg"):
        dots = ElementTree.parse(tmp_path / picture).iter("{http://www.w3.org/2000/svg}circle")  # noqa: S314
        assert len(list(dots)) == 8, "a legend and a row of four systems"


def test_kafka_batches_have_their_checksum_and_count() -> None:
    made = kafka_work.batch([b"a", b"bc"])
    base, length, _, magic, checksum = kafka_work.BATCH.unpack_from(made)
    assert (base, length, magic) == (0, len(made) - 12, 2)
    assert checksum == google_crc32c.value(made[kafka_work.BATCH.size :])
    assert int.from_bytes(made[57:61], "big") == 2
    assert [kafka_work.varint(each) for each in (0, -1, 1, 64)] == [b"\x00", b"\x01", b"\x02", b"\x80\x01"]


def test_mqtt_packets_are_read_in_any_pieces() -> None:
    connection = mosquitto.MqttConnection()
    seen: list[bytes] = []
    connection.on_message = seen.append
    connection.write = lambda data: None  # type: ignore[method-assign]
    whole = mosquitto.publish("a/b", b"x" * 200, 6) + b"\x40\x02\x00\x07"
    answers = sum(connection.count(whole[at : at + 1]) for at in range(len(whole)))
    assert (answers, seen) == (1, [b"x" * 200])


def test_rabbitmq_confirms_are_counted_by_the_frame() -> None:
    connection = rabbitmq.StreamConnection()
    connection.messages_each = 2
    confirm = rabbitmq.frame(rabbitmq.CONFIRM, b"\x00" + (3).to_bytes(4, "big") + bytes(24))
    assert [connection.count(confirm), connection.count(confirm[:9]), connection.count(confirm[9:])] == [1, 0, 2]


def test_every_row_of_the_issue_is_there() -> None:
    names = " ".join(row.name for row in ROWS)
    wanted = ("one at a time", "at 200/s", "in flight", "a call", "flood to 100", "replay", "256", "100,000", "one hop")
    assert all(each in names for each in (*wanted, "request and reply"))
