"""What was done and what was seen, as Markdown and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.chaos.checker import Finding
from tools.chaos.history import History
from tools.chaos.schedule import Fault, tell


@dataclass(frozen=True)
class Run:
    """``done`` are the faults that happened; ``defects`` what nodes and commands did that they must not do."""

    seed: int
    minutes: float
    commit: str
    machine: str
    done: Sequence[Fault]
    defects: Sequence[str]
    skipped: Sequence[str]  # what this machine does not have
    notes: Sequence[str]  # what the nodes said of flipped bytes


def figures(history: History) -> dict[str, Any]:
    """Counts per door and per reader."""
    doors: dict[str, dict[str, int]] = {}
    logged = {each.id for log in history.logs.values() for each in log}
    for mark in history.tried:
        door = doors.setdefault(mark.strip("#").partition("/")[0], {"tried": 0, "acknowledged": 0, "in a log": 0})
        door["tried"] += 1
        door["in a log"] += mark in logged
    for acked in history.acked:
        doors[acked.id.strip("#").partition("/")[0]]["acknowledged"] += 1
    handled = Counter(each.id for each in history.handled)
    return {
        "doors": dict(sorted(doors.items())),
        "delivered": {reader: len(seen) for reader, seen in sorted(history.delivered.items())},
        "in logs": {node: len(log) for node, log in sorted(history.logs.items())},
        "group": {
            "handled": len(handled),
            "handled more than once": sum(count > 1 for count in handled.values()),
            "refused": len(history.nacked),
            "dead letters": len(history.dead),
        },
        "kv": {
            "tried": sum(len(values) for values in history.puts.values()),
            "acknowledged": len(history.puts_acked),
            "keys": len(history.puts),
        },
        "given up by repairs": sum(
            last.offset - first.offset + 1 for spans in history.given_up.values() for first, last in spans
        ),
        "drivers killed": history.drivers_killed,
        "rows in the table": None if history.table is None else len(history.table),
    }


def as_json(run: Run, history: History, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "minutes": run.minutes,
        "commit": run.commit,
        "machine": run.machine,
        "faults": [fault.as_json() for fault in run.done],
        "faults by kind": dict(Counter(fault.kind for fault in run.done)),
        "figures": figures(history),
        "defects": list(run.defects),
        "skipped": list(run.skipped),
        "notes": list(run.notes),
        "findings": [{"kind": each.kind, "text": each.text} for each in findings],
    }


def as_markdown(run: Run, history: History, findings: Sequence[Finding]) -> str:
    found = figures(history)
    lines = [
        f"# Chaos: seed {run.seed}, {run.minutes:g} minutes, commit {run.commit}",
        "",
        f"Machine: {run.machine}.",
        "",
        f"**{len(findings)} violations, {len(run.defects)} defects.**",
        "",
        *(f"- {each.kind}: {each.text}" for each in findings[:100]),
        *(f"- defect: {each}" for each in run.defects),
        *(f"- not done here: {each}" for each in run.skipped),
        "",
        "| fault | times |",
        "|---|---|",
        *(f"| {kind} | {count} |" for kind, count in sorted(Counter(fault.kind for fault in run.done).items())),
        "",
        "| door | tried | acknowledged | in a log |",
        "|---|---|---|---|",
        *(f"| {door} | {' | '.join(f'{count:,}' for count in row.values())} |" for door, row in found["doors"].items()),
        "",
        *(f"- {name}: {found[name]}" for name in list(found)[1:]),
        "",
        "What nodes said of flipped bytes:",
        "",
        *(f"- {each}" for each in run.notes),
        "",
        "## The story",
        "",
        "```",
        *(tell(fault) for fault in run.done),
        "```",
        "",
    ]
    return "\n".join(lines)
