"""``make chaos``: the schedule is a function of the seed, and the checker finds what is planted."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tools.chaos.checker import check
from tools.chaos.history import Acked, History, Place, Seen, read_history
from tools.chaos.journal import Journal
from tools.chaos.load import step_over
from tools.chaos.schedule import KINDS, plan, tell
from weft.client import LogCorrupt
from weft.log.errors import EventsLost, Loss
from weft.model import Epoch, NodeId, Stream, parse_topic

NODES = ("a", "b", "c", "d", "e")
ROOT = Path(__file__).resolve().parents[2]


def test_a_seed_is_a_story() -> None:
    story = plan(7, 3600, NODES)
    assert story == plan(7, 3600, NODES)
    assert story != plan(8, 3600, NODES)
    assert {fault.kind for fault in story} == set(KINDS)
    assert all(tell(fault) for fault in story)
    assert [fault.kind for fault in story].count("guest") == 1
    assert [fault.at_s for fault in story] == sorted(fault.at_s for fault in story)
    assert all(fault.at_s + fault.lasts_s <= 3600 - 45 + 0.1 for fault in story)


@pytest.mark.parametrize("seed", range(20))
def test_no_node_has_two_faults_at_once(seed: int) -> None:
    story = plan(seed, 600, NODES)
    for index, one in enumerate(story):
        for other in story[index + 1 :]:
            if other.at_s < one.at_s + one.lasts_s:
                assert not {one.target, one.other} & {other.target, other.other} - {""}


def place(offset: int, origin: str = "a", topic: str = "chaos.sdk0.t0") -> Place:
    return Place(topic, origin, 0, 7, offset)


def good(events: int = 6) -> History:
    """A run in which all went well."""
    history = History()
    seen = [Seen(place(number), f"#sdk0/{number}#", float(number)) for number in range(events)]
    history.tried = {each.id for each in seen}
    history.acked = [Acked(each.id, each.place, 1, each.at) for each in seen]
    history.delivered = {"reader0": list(seen)}
    history.handled = list(seen[1:])
    history.dead = {seen[0].id}
    history.logs = {"a": list(seen), "b": list(seen)}
    history.puts = {"k1": {"x", "y"}}
    history.puts_acked = [("k1", "x", "5.0@a"), ("k1", "y", "5.1@a")]
    history.buckets = {node: {"k1": ("y", "5.1@a")} for node in "ab"}
    history.table = list(seen)
    return history


def test_a_good_run_has_no_findings() -> None:
    assert check(good()) == []


def lose(history: History) -> None:
    history.logs["a"].pop()


def lose_copy(history: History) -> None:
    """Two nodes were promised, and both have given it up."""
    history.acked[-1] = replace(history.acked[-1], copies=2)
    history.given_up["a"] = [(place(5), place(5))]
    for log in history.logs.values():
        log.pop()
    history.table = good(5).table


def replace_event(history: History) -> None:
    history.logs["b"][3] = replace(history.logs["b"][3], id="#sdk0/4#")


def invent(history: History) -> None:
    history.delivered["reader0"].append(Seen(place(6), "#sdk0/6#"))


def publish_twice(history: History) -> None:
    history.logs["b"].append(Seen(place(0, "b"), "#sdk0/1#"))


def swap_in_log(history: History) -> None:
    first, second = history.logs["b"][1:3]
    history.logs["b"][1:3] = [replace(first, id=second.id), replace(second, id=first.id)]


def swap_in_delivery(history: History) -> None:
    seen = history.delivered["reader0"]
    seen[1], seen[2] = seen[2], seen[1]


def deliver_twice(history: History) -> None:
    history.delivered["reader0"].append(history.delivered["reader0"][-1])


def skip_delivery(history: History) -> None:
    del history.delivered["reader0"][2]


def skip_handling(history: History) -> None:
    del history.handled[2]


def handle_again(history: History) -> None:
    history.handled.append(replace(history.handled[0], at=500.0))


def diverge(history: History) -> None:
    history.buckets["b"]["k1"] = ("x", "5.0@a")


def fall_silent(history: History) -> None:
    del history.buckets["b"]
    history.unasked["b"] = "no node answers"


def lose_key(history: History) -> None:
    for bucket in history.buckets.values():
        bucket["k1"] = ("x", "5.0@a")


def invent_value(history: History) -> None:
    for bucket in history.buckets.values():
        bucket["k1"] = ("z", "9.0@b")


def drop_row(history: History) -> None:
    assert history.table is not None
    history.table.pop()


def double_row(history: History) -> None:
    assert history.table is not None
    history.table.append(history.table[0])


def with_sink(history: History) -> History:
    """Three events of sdk1 at node a, and what Spark has made of them at node b."""
    for number in range(3):
        read = Seen(place(number, "a", "chaos.sdk1.t0"), f"#sdk1/{number}#")
        written = Seen(place(number, "b", "chaos.sink0.t0"), f"#sink0/{number}#")
        history.tried |= {read.id, written.id}
        for seen in (read, written):
            for log in (*history.logs.values(), *history.delivered.values(), history.table or []):
                log.append(seen)
    history.has_sink = True
    return history


def skip_in_sink(history: History) -> None:
    for seen in (*with_sink(history).logs.values(), *history.delivered.values(), history.table or []):
        seen.pop()


def sink_twice(history: History) -> None:
    again = Seen(place(3, "b", "chaos.sink0.t0"), "#sink0/2#")
    for seen in (*with_sink(history).logs.values(), *history.delivered.values(), history.table or []):
        seen.append(again)


def hide_from_readers(history: History) -> None:
    """What the sink has written, nobody got a receipt for that a reader could be held to."""
    with_sink(history).delivered["reader0"].pop()


def let_in(history: History) -> None:
    history.revoked["sdk0"] = -100.0


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        (lose, "lost"),
        (lose_copy, "lost"),
        (replace_event, "differs"),
        (invent, "invented"),
        (publish_twice, "doubled"),
        (swap_in_log, "reordered"),
        (swap_in_delivery, "reordered"),
        (deliver_twice, "reordered"),
        (skip_delivery, "undelivered"),
        (skip_handling, "unhandled"),
        (handle_again, "handled-again"),
        (diverge, "diverged"),
        (fall_silent, "unasked"),
        (lose_key, "lost"),
        (invent_value, "invented"),
        (drop_row, "table"),
        (double_row, "table"),
        (skip_in_sink, "unsunk"),
        (sink_twice, "doubled"),
        (hide_from_readers, "undelivered"),
        (let_in, "let-in"),
    ],
)
def test_the_checker_finds_what_is_planted(plant: Callable[[History], None], kind: str) -> None:
    history = good()
    plant(history)
    assert kind in {finding.kind for finding in check(history)}


def test_what_a_repair_gave_up_is_no_loss() -> None:
    history = good()
    lose(history)
    history.given_up["a"] = [(place(5), place(5))]
    assert check(history) == []


def test_a_sink_that_wrote_all_has_no_findings() -> None:
    assert check(with_sink(good())) == []


def test_the_sink_may_lack_what_a_repair_gave_up_of_it() -> None:
    history = good()
    skip_in_sink(history)
    history.given_up["b"] = [(place(2, "b", "chaos.sink0.t0"), place(2, "b", "chaos.sink0.t0"))]
    assert check(history) == []


def test_the_sink_may_write_again_where_its_node_gave_something_up() -> None:
    history = good()
    sink_twice(history)
    history.given_up["b"] = [(place(9, "b", "weft.decisions"), place(9, "b", "weft.decisions"))]
    assert check(history) == []


def test_handling_again_around_a_fault_is_at_least_once() -> None:
    history = good()
    handle_again(history)
    history.faults["kill"] = (300.0, 310.0)
    assert check(history) == []


def test_a_reader_goes_on_behind_what_a_repair_gave_up_once_it_has_all_before() -> None:
    """In the words of the log, and as a client of a node shows them."""
    stream = Stream(parse_topic("chaos.sdk0.t0"), NodeId("b"), 0)
    error = EventsLost(Loss(stream, Epoch(7), 4961, 4963), "a repair has given them up")
    shown = LogCorrupt(str(error), node="d", end="4963", first="4961")
    for told in (str(error), str(shown)):
        ends = {("chaos.sdk0.t0", "b", 0, epoch): end for epoch, end in ((6, 9), (7, 4961), (8, 4962))}
        step_over(ends, told)
        assert list(ends.values()) == [9, 4963, 4962]
        step_over(ends, told)
        assert list(ends.values()) == [9, 4963, 4962]


def test_journals_become_a_history(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "sdk0.jsonl")
    journal.note("tried", id="#sdk0/0#", topic="chaos.sdk0.t0")
    journal.note("acked", id="#sdk0/0#", place=["chaos.sdk0.t0", "a", 0, 7, 0], copies=1)
    with (tmp_path / "sdk0.jsonl").open("ab") as file:
        file.write(b'{"kind":"acked","id":"#sd')  # the process was killed here
    Journal(tmp_path / "reader0.jsonl").note("delivered", place=["chaos.sdk0.t0", "a", 0, 7, 0], text="x #sdk0/0# y")
    Journal(tmp_path / "sdk1.jsonl").note("tried", id="#sdk1/4#", topic="chaos.sdk1.t0")
    Journal(tmp_path / "sink0.jsonl").note("began", door="sink", index=0)
    history = read_history(tmp_path)
    assert history.tried == {"#sdk0/0#", "#sdk1/4#", "#sink0/4#"}
    assert {"#sdk0/0#"} == {each.id for each in history.acked}
    assert [(each.place, each.id) for each in history.delivered["reader0"]] == [(place(0), "#sdk0/0#")]


@pytest.mark.parametrize("module", ["checker", "history", "journal", "schedule"])
def test_the_checker_knows_nothing_of_weft(module: str) -> None:
    tree = ast.parse((ROOT / "tools" / "chaos" / f"{module}.py").read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert not [name for name in imported if name.split(".")[0] == "weft"]
    own = {"tools.chaos.history", "tools.chaos.journal"}
    assert {name for name in imported if name.startswith("tools.")} <= own


@pytest.mark.skipif(not os.environ.get("WEFT_SOAK"), reason="minutes of faults on five nodes: WEFT_SOAK=1")
def test_two_minutes_of_chaos(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "tools.chaos", "--minutes", "2", "--no-spark", "--to", str(tmp_path))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode == 2:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
