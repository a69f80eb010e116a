"""What schemas cost: checks and columns on one core, beside Arrow's JSON reader; and a node with and without one.

.venv/bin/python -m bench.schemas

Rows but those of the node are per second of CPU, so that other work on the machine counts less. The node runs as users
start it, secured; its rows are events/s that are synced and acknowledged: frames of 1,000, and one event at a time.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.json as pj
import structlog
from bench.harness import Case, measure, report

from tests.up import up
from weft.client import Client
from weft.model import Batch, Pattern, Topic
from weft.node.schema_gate import SchemaGate
from weft.port.schemas import Payloads
from weft.schema import Kind, Schema, arrow_schema, find_faults, parse_schema, read_columns
from weft.schema.registry import Change, changed

COUNT = 1_000  # events in a frame
ROUNDS = 5  # of the node
WORK_S = 1.5
DDL = (
    "id BIGINT NOT NULL, device STRING, temp DOUBLE, hum DOUBLE, ok BOOLEAN, line STRING, tags ARRAY<STRING>, "
    "at TIMESTAMP, note STRING"
)
CHECKED = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "device": {"type": "string", "pattern": "^sensor-[0-9]+$"},
        "temp": {"type": "number", "minimum": -50, "maximum": 150},
        "hum": {"type": "number", "minimum": 0, "maximum": 100},
        "ok": {"type": "boolean"},
        "line": {"type": "string", "maxLength": 40},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "at": {"type": "string", "format": "date-time"},
        "note": {"type": "string"},
    },
    "required": ["id", "device"],
}
AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "device", "type": "string"},
        {"name": "temp", "type": "double"},
        {"name": "hum", "type": ["null", "double"]},
        {"name": "ok", "type": "boolean"},
        {"name": "note", "type": "string"},
    ],
}


def payloads(count: int = COUNT, **more: object) -> list[bytes]:
    """JSON of about 200 bytes each."""
    chance = random.Random(1)  # noqa: S311  a seed is the point
    return [
        json.dumps(
            {
                "id": number,
                "device": f"sensor-{number % 100:04d}",
                "temp": round(chance.gauss(20, 5), 3),
                "hum": round(chance.random() * 100, 3),
                "ok": True,
                "line": f"plant.line{number % 8}",
                "tags": ["a", "b"],
                "at": "2026-05-01T12:00:00.123Z",
                "note": "x" * 30,
                **more,
            }
        ).encode()
        for number in range(count)
    ]


def with_bad(good: Sequence[bytes], every: int) -> list[bytes]:
    return [b'{"id":"x"}' if at % every == 0 else payload for at, payload in enumerate(good)]


def avro_payloads() -> list[bytes]:
    def varint(number: int) -> bytes:
        number <<= 1
        out = bytearray()
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        return bytes([*out, number])

    def text(value: str) -> bytes:
        return varint(len(value)) + value.encode()

    double = bytes(8)
    return [
        varint(number) + text(f"sensor-{number:04d}") + double + b"\x02" + double + b"\x01" + text("x" * 30)
        for number in range(COUNT)
    ]


def check_cases() -> list[Case]:
    plain, checked = parse_schema(Kind.DDL, DDL), parse_schema(Kind.JSON_SCHEMA, json.dumps(CHECKED))
    good = payloads()
    some, all_bad = with_bad(good, 100), with_bad(good, 1)
    avro, avro_good = parse_schema(Kind.AVRO, json.dumps(AVRO)), avro_payloads()
    assert not find_faults(plain, good) and not find_faults(checked, good) and not find_faults(avro, avro_good)
    decode = msgspec.json.Decoder().decode
    note = f"{sum(map(len, good)) // COUNT} bytes, nine columns"

    def case(name: str, schema: Schema, events: Sequence[bytes], note: str = "") -> Case:
        return Case(name, lambda: find_faults(schema, events), len(events), "events", note=note)

    return [
        Case("msgspec alone, to dicts", lambda: [decode(each) for each in good], COUNT, "events", note="yardstick"),
        Case("Arrow's JSON reader, same columns", lambda: by_arrow(plain, good), COUNT, "events", note="yardstick"),
        case("check a frame of 1,000, types only", plain, good, note),
        case("the same with ranges, enum, pattern", checked, good, "the pattern by RE2"),
        case("the same with 1 % bad events", plain, some),
        case("the same, all bad", plain, all_bad),
        case("check one event alone", plain, good[:1]),
        case("check a frame of 1,000, Avro", avro, avro_good, "six columns"),
    ]


def by_arrow(schema: Schema, events: Sequence[bytes]) -> pa.Table:
    joined = b"\n".join(events)
    return pj.read_json(
        pa.BufferReader(joined),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(joined) + 16),
        parse_options=pj.ParseOptions(explicit_schema=arrow_schema(schema), unexpected_field_behavior="error"),
    )


def column_cases() -> list[Case]:
    plain = parse_schema(Kind.DDL, DDL)
    avro = parse_schema(Kind.AVRO, json.dumps(AVRO))
    good = payloads(10 * COUNT)

    def case(name: str, schema: Schema, events: Sequence[bytes], note: str = "") -> Case:
        array = pa.array(events, pa.binary())
        return Case(name, lambda: read_columns(schema, array), len(events), "events", note=note)

    return [
        case("columns of 10,000", plain, good),
        case("columns of 10,000, 1 % bad", plain, with_bad(good, 100)),
        case("columns of 10,000, an unknown field in each", plain, payloads(10 * COUNT, more=1), "read twice"),
        case("columns of 1,000, Avro", avro, avro_payloads()),
    ]


def gate_cases(loop: asyncio.AbstractEventLoop) -> list[Case]:
    async def made() -> SchemaGate:
        gate = SchemaGate(time.monotonic, structlog.stdlib.get_logger())
        records = [
            changed(Pattern(f"site{number}.*.temp"), None, Change(parse_schema(Kind.DDL, DDL)), 0, "bench")
            for number in range(100)
        ]
        gate.set_records(records)
        return gate

    gate = loop.run_until_complete(made())
    free, typed, batch = Topic("mill.a.temp"), Topic("site7.a.temp"), Batch.from_columns(payloads(), 0)
    gate.check(None, typed, Payloads(batch), _passed, first_only=True)

    def frame() -> None:
        gate._turn_end_s = None  # every run is a turn of its own
        gate.check(None, typed, Payloads(batch), _passed, first_only=True)

    return [
        Case("a topic without a schema, beside 100", lambda: gate.applies(free), 1, "look-ups"),
        Case("a frame of 1,000 at the gate", frame, COUNT, "events"),
    ]


def _passed(broken: object) -> None:
    assert not broken, broken


# --- a node ----------------------------------------------------------------------------------------------------------


async def frames(client: Client, topic: str, batch: Batch) -> tuple[int, float]:
    """Eight frames under way."""
    begin = time.perf_counter()
    done = 0

    async def work() -> None:
        nonlocal done
        while time.perf_counter() - begin < WORK_S:
            await client.publish_batch(topic, batch)
            done += len(batch)

    await asyncio.gather(*(work() for _ in range(8)))
    return done, time.perf_counter() - begin


async def lone(client: Client, topic: str, batch: Batch) -> tuple[int, float]:
    """One event at a time, each after the receipt of the one before."""
    payload = next(iter(batch)).payload
    begin = time.perf_counter()
    done = 0
    while time.perf_counter() - begin < WORK_S:
        await client.publish(topic, payload)
        done += 1
    return done, time.perf_counter() - begin


async def node_cases() -> list[Case]:
    works = {"frames of 1,000": frames, "one at a time": lone}
    ways = {"no schema": "free", "mode warn": "warned", "mode reject": "refused"}  # the first token of the topics
    cases = {(work, way): Case(f"{work}, {way}", lambda: None, 1, "events") for work in works for way in ways}
    batch = Batch.from_columns(payloads(), 0)
    with tempfile.TemporaryDirectory() as place, up(Path(place) / "node") as node:
        async with node.client() as client:
            await client.schemas.set("warned.>", DDL, kind="ddl", mode="warn")
            await client.schemas.set("refused.>", DDL, kind="ddl", mode="reject")
            for number in range(ROUNDS):
                for (work, way), case in cases.items():
                    done, took_s = await works[work](client, f"{ways[way]}.t{number}", batch)
                    case.rates.append(done / took_s)
    return list(cases.values())


def main() -> None:
    loop = asyncio.new_event_loop()
    cases = [*check_cases(), *column_cases(), *gate_cases(loop)]
    measure(cases, clock=time.process_time)
    cases += loop.run_until_complete(node_cases())
    loop.close()
    report(cases, "schemas")


if __name__ == "__main__":
    main()
