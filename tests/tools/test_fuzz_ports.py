"""``make fuzz-ports``: what counts as a finding, and a few seconds of it against a node as users start it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tools.fuzz_ports import Sample, attack, judge, markdown, victim_in
from tools.fuzzing.filling import filled
from tools.fuzzing.port_clients import CLIENTS
from weft.wire.mesh import mesh_pb2 as pb

SECONDS = 4.0
MIB = 1 << 20


def samples(*rows: tuple[float, int, int]) -> list[Sample]:
    return [Sample(at_s, mib * MIB, files, 0) for at_s, mib, files in rows]


def test_what_is_a_finding() -> None:
    steady = samples((0, 100, 40), (25, 180, 90), (50, 185, 95), (100, 190, 44))
    assert judge(steady, [], 100.0) == []
    waited = [{"delay_s": 3.0, "cpu_s": 0.01, "where": []}]
    assert judge(steady, waited, 100.0) == [], "the machine was busy, not the loop"
    (found,) = judge(steady, [*waited, {"delay_s": 0.4, "cpu_s": 0.3, "where": ["core.x"]}], 100.0)
    assert found == "the loop was held up 1 times, for 0.30 s at worst: ['core.x']"
    (found,) = judge(samples((0, 100, 40), (100, 100, 60)), [], 100.0)
    assert "60 descriptors at the end, 40 at the beginning" in found
    (found,) = judge(samples((0, 100, 40), (25, 180, 40), (100, 300, 40)), [], 100.0)
    assert "memory grew from 180 MiB" in found


def test_messages_are_filled_by_chance_and_the_same_for_the_same_seed() -> None:
    def some(seed: int) -> list[bytes]:
        chance = Random(seed)  # noqa: S311
        return [filled(pb.SubscribeRequest, ["plant.t"], [b"batch"], chance) for _ in range(50)]

    assert some(1) == some(1) != some(2)
    kinds = {pb.SubscribeRequest.FromString(each).WhichOneof("msg") for each in some(1)}
    assert {"open", "credit", "handled", "settled"} <= kinds


@pytest.mark.req("SEC-04", "SEC-05", "SEC-06")
async def test_a_few_seconds_of_damaged_messages_at_every_port(tmp_path: Path) -> None:
    with victim_in(tmp_path, seed=3) as victim:
        outcome = await attack(victim, list(CLIENTS), SECONDS)
        assert list(outcome.findings) == []
        assert set(outcome.attempts) == set(CLIENTS), "each of them had its turn"
        assert "| `grpc-key` |" in markdown(outcome)
        victim.node.end_quietly()
