"""Events at the gate: what is checked at once, what waits in line, and what becomes of faults (LAK-02)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
import structlog
from structlog.testing import capture_logs

from weft.model import Batch, Pattern, Topic
from weft.node import schema_gate
from weft.node.schema_gate import PAYLOAD_BYTES_MAX, SchemaGate
from weft.port.schemas import Payloads, check_one
from weft.schema import Kind, SchemaBroken, parse_schema
from weft.schema.registry import Change, Mode, TopicSchema, changed

pytestmark = pytest.mark.req("LAK-02")
TEMP = Topic("plant.a.temp")
GOOD, BAD = b'{"id":1}', b'{"id":"x"}'


def record(pattern: str = "plant.>", mode: Mode = Mode.REJECT, text: str = "id BIGINT NOT NULL") -> TopicSchema:
    return changed(Pattern(pattern), None, Change(parse_schema(Kind.DDL, text), mode), 0, "k")


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(schema_gate, "TURN_S", 600.0)


class Gate:
    """A gate, and what it said of each check in the order in which it said it."""

    def __init__(self, *records: TopicSchema) -> None:
        self.now_s = 0.0
        self.gate = SchemaGate(lambda: self.now_s, structlog.stdlib.get_logger())
        self.gate.set_records(records)
        self.told: list[tuple[object, dict[int, str]]] = []

    def check(
        self, name: object, payloads: list[bytes] | Batch, topic: Topic = TEMP, by: object = "p", first: bool = True
    ) -> None:
        def done(broken: Mapping[int, SchemaBroken]) -> None:
            self.told.append((name, {at: str(error.fault) for at, error in broken.items()}))

        self.gate.check(by, topic, Payloads(payloads), done, first_only=first)

    async def until_told(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.told) < count:
                await asyncio.sleep(0.001)


async def test_what_has_no_schema_passes_at_once() -> None:
    gate = Gate(record("plant.>"), record("quiet.>", Mode.OFF), record(">", Mode.REJECT, "other STRING"))
    for name in ("mill.a", "quiet.a", "weft.kv.x"):
        gate.check(name, [BAD], Topic(name))
    assert gate.told == [("mill.a", {}), ("quiet.a", {}), ("weft.kv.x", {})]
    assert gate.gate.applies(TEMP) and not gate.gate.applies(Topic("quiet.a"))
    assert not gate.gate.applies(Topic("weft.inbox.x"))


async def test_small_batches_are_checked_at_once() -> None:
    gate = Gate(record())
    gate.check("good", [GOOD] * 3)
    gate.check("bad", [GOOD, BAD, BAD], first=False)
    gate.check("few", Batch.from_columns([GOOD, BAD], 0))
    gate.check("arrow", Batch.from_columns([GOOD] * 500 + [BAD], 0))
    reason = "id: expected BIGINT, found text"
    assert gate.told == [
        ("good", {}),
        ("bad", {1: reason, 2: reason}),
        ("few", {1: reason}),
        ("arrow", {500: reason}),
    ]
    (figures,) = gate.gate.figures()
    assert (figures.pattern, figures.checked, figures.faults) == ("plant.>", 3 + 3 + 2 + 501, 4)


async def test_large_batches_wait_and_keep_their_order() -> None:
    gate = Gate(record())
    gate.check("large", Batch.from_columns([GOOD] * 9_000, 0))
    gate.check("small, behind it", [GOOD])
    gate.check("large and bad", [GOOD] * 4_000 + [BAD] + [GOOD] * 4_000)
    gate.check("another topic", [GOOD], Topic("plant.b"))
    gate.check("another publisher", [BAD], by="q")
    assert [name for name, _ in gate.told] == ["another topic", "another publisher"]
    await gate.until_told(5)
    assert [name for name, _ in gate.told[2:]] == ["large", "small, behind it", "large and bad"]
    assert list(gate.told[4][1]) == [4_000]


async def test_a_large_batch_holds_up_nobody() -> None:
    """While it is checked, the loop turns and others have their answers."""

    gate = Gate(record(text="id ARRAY<INT>"))
    slow = b'{"id":[' + b"1.0," * 5_000 + b"1]}"  # whole numbers with a point: each needs a thorough look
    gate.check("large", [slow] * 20, by="q")
    for number in range(5):
        gate.check(number, [b"{}"])
        await asyncio.sleep(0)
    await gate.until_told(6)
    assert [name for name, _ in gate.told] == [0, 1, 2, 3, 4, "large"]
    assert gate.told[-1] == ("large", {})


async def test_a_turn_of_the_loop_checks_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_gate, "TURN_S", -1.0)  # every turn is old

    gate = Gate(record())
    for number in range(3_000):
        gate.check(number, [GOOD] if number % 2 else [BAD], Topic(f"plant.t{number}"))
    assert gate.told == []
    await gate.until_told(3_000)
    assert all(bool(broken) == (number % 2 == 0) for number, broken in gate.told if isinstance(number, int))


async def test_warnings_are_counted_and_logged_once_a_minute() -> None:
    with capture_logs() as logs:
        gate = Gate(record(mode=Mode.WARN))
        for second in range(0, 121, 10):
            gate.now_s = float(second)
            gate.check(second, [GOOD, BAD, BAD])
        assert all(broken == {} for _, broken in gate.told)
    assert [each["times"] for each in logs if each["event"] == "schema_broken"] == [1, 6, 6]
    assert logs[0]["schema"] == "plant.>" and logs[0]["field"] == "id" and "expected BIGINT" in logs[0]["reason"]
    assert gate.gate.figures()[0].faults == 26


async def test_a_payload_beyond_the_limit_is_a_fault() -> None:
    gate = Gate(record())
    huge = b'{"id":1,"x":"' + b"y" * PAYLOAD_BYTES_MAX + b'"}'
    gate.check("huge", [GOOD, huge])
    await gate.until_told(1)
    assert "where a schema is checked, the limit is 262144" in gate.told[0][1][1]
    with pytest.raises(SchemaBroken):
        await check_one(gate.gate, TEMP, huge)
    await check_one(gate.gate, TEMP, GOOD)
    await check_one(gate.gate, Topic("mill.a"), BAD)


async def test_rules_change_while_others_wait() -> None:
    gate = Gate(record())
    gate.check("large", [GOOD] * 5_000)
    gate.gate.set_records([])
    gate.check("behind it, by the rule of then", [BAD])
    gate.check("without a rule", [BAD], by="q")
    assert [name for name, _ in gate.told] == ["without a rule"]
    await gate.until_told(3)
    assert [bool(broken) for _, broken in gate.told] == [False, False, True]
    gate.gate.set_records([record(text="name STRING")])
    gate.check("a new rule", [b'{"name":1}'])
    assert gate.told[-1][1] == {0: "name: expected STRING, found the number 1"}
