"""Keys and values beside NATS: ``python -m bench.kv [--only PATTERN] [--rounds N] [--json]``.

Rows are independent: each starts its own servers, and rounds go through the systems in turn. NATS is left out where it
is not installed (``pip install weft[bench]``). Everything that is written is synced before it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import uvloop
from bench.figures import Comparison, add_formats, report_comparisons
from bench.mesh_work import Weft
from bench.peers.nats import Nats, message
from bench.peers.process import found
from bench.peers.raw import in_flight, in_turn
from bench.systems import PAYLOAD, Sample

ROUNDS = 3
WORK_S = 1.5  # of each system, row and round
OURS = ("Weft", "Weft, mTLS")

Work = Callable[[Path], Awaitable[Sample]]


@dataclass(frozen=True)
class Row:
    name: str
    unit: str
    works: dict[str, Work]  # by system


# --- keys and values -------------------------------------------------------------------------------------------------

KV_KEYS = 1000
KV_IN_FLIGHT = 64


async def weft_kv(place: Path, is_secured: bool, in_flight_max: int, puts: bool) -> Sample:
    """One client of the SDK; so many calls at a time."""
    async with Weft.started(place, is_secured) as system:
        (client,) = await system._connect(1)
        bucket = client.kv("bench")
        await asyncio.gather(*(bucket.put(f"k{number}", PAYLOAD) for number in range(KV_KEYS)))
        begin = time.perf_counter()
        end, done = begin + WORK_S, 0

        async def work(first: int) -> None:
            nonlocal done
            number = first
            while time.perf_counter() < end:
                key = f"k{number % KV_KEYS}"
                await (bucket.put(key, PAYLOAD) if puts else bucket.get(key))
                number += in_flight_max
                done += 1

        await asyncio.gather(*map(work, range(in_flight_max)))
        return Sample(done, time.perf_counter() - begin)


async def nats_kv(place: Path, in_flight_max: int, puts: bool) -> Sample:
    """NATS KV as its clients speak it, by a bare socket: a put is a publish that is answered, a get asks the stream."""
    async with Nats.started(place) as system:
        connections = await system._connect(1)
        (connection,) = connections
        bucket = {"name": "KV_bench", "subjects": ["$KV.bench.>"], "max_msgs_per_subject": 5, "allow_direct": True}
        await connection.ask("$JS.API.STREAM.CREATE.KV_bench", {**bucket, "storage": "file", "discard": "new"})
        inbox = f"{connection.inbox}.0"
        subjects = [f"$KV.bench.k{number}" for number in range(KV_KEYS)]
        written = [message(subject, PAYLOAD, inbox) for subject in subjects]
        await in_flight(connections, in_turn(written), 60.0, window=KV_IN_FLIGHT, requests_max=KV_KEYS)
        asked = [message(f"$JS.API.DIRECT.GET.KV_bench.{subject}", b"", inbox) for subject in subjects]
        return await in_flight(connections, in_turn(written if puts else asked), WORK_S, window=in_flight_max)


def kv_rows() -> list[Row]:
    rows = []
    for puts, count in ((True, 1), (True, KV_IN_FLIGHT), (False, 1), (False, KV_IN_FLIGHT)):
        works: dict[str, Work] = {
            "Weft": partial(weft_kv, is_secured=False, in_flight_max=count, puts=puts),
            "Weft, mTLS": partial(weft_kv, is_secured=True, in_flight_max=count, puts=puts),
            "NATS": partial(nats_kv, in_flight_max=count, puts=puts),
        }
        what = "puts" if puts else "gets"
        how = "one at a time" if count == 1 else f"{count} in flight"
        rows.append(Row(f"KV {what}, {how}", f"{what}/s", works))
    return rows


# --- a run -----------------------------------------------------------------------------------------------------------


async def measure(row: Row, rounds: int) -> Comparison:
    rates: dict[str, list[float]] = {}
    for _ in range(rounds):
        for system, work in row.works.items():
            if system == "NATS" and not found("nats-server"):
                continue
            with tempfile.TemporaryDirectory() as place:
                sample = await work(Path(place))
            rates.setdefault(system, []).append(sample.events / sample.seconds)
    values = {system: statistics.median(each) for system, each in rates.items()}
    return Comparison(row.name, row.unit, OURS, values)


def main() -> int:
    parser = argparse.ArgumentParser(description="keys and values beside NATS")
    parser.add_argument("--only", default="", metavar="PATTERN", help="rows whose names match")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    add_formats(parser)
    options = parser.parse_args()
    rows = [row for row in kv_rows() if re.search(options.only, row.name)]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        comparisons = [runner.run(measure(row, options.rounds)) for row in rows]
    report_comparisons(comparisons, [*OURS, "NATS"], "Keys and values", options.format)
    return 0


if __name__ == "__main__":
    sys.exit(main())
