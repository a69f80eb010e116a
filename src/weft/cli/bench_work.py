"""What ``weft bench`` does: run the load, show progress, print the results."""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict, replace
from typing import Any, Final

import uvloop
from rich.markup import escape

from weft.cli.connection import choose_target, connected
from weft.cli.console import err, out
from weft.cli.options import INTERRUPTED, Where
from weft.cli.tables import human_bytes, print_json, print_table
from weft.load import Histogram, Load, Report, measure

SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
BAR_COLUMNS: Final = 40
RUN_BYTES: Final = 8


def run(where: Where, load: Load, json: bool) -> None:
    """Exit status 1 if events that were acknowledged did not come to a subscriber."""
    target, name = choose_target(where, os.environ), secrets.token_bytes(RUN_BYTES)
    if load.is_fresh:
        load = replace(load, topic=f"bench.{name.hex()}")
    try:
        report = uvloop.run(measure(load, lambda: connected(target), name, None if json else _show_progress))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    if json:
        print_json(document(report))
    else:
        _print_report(report)
    if report.missing:
        err.print(f"[red]weft:[/] {report.missing:,} acknowledged events did not reach a subscriber in time")
        raise SystemExit(1)


def document(report: Report) -> dict[str, Any]:
    """For programs. Times are in seconds; ``bars`` has the number of events up to each time."""
    return {
        "load": asdict(report.load),
        "published": {
            "events": report.sent,
            "seconds": report.sent_s,
            "events_per_s": _rate(report.sent, report.sent_s),
            "receipts": _times(report.receipts),
        },
        "delivered": {
            "events": report.delivered,
            "missing": report.missing,
            "seconds": report.delivered_s,
            "events_per_s": _rate(sum(report.delivered), report.delivered_s),
            "deliveries": _times(report.deliveries),
        },
    }


def _times(found: Histogram) -> dict[str, Any] | None:
    if not found.count:
        return None
    shares = {name: found.percentile_s(share) for name, share in SHARES.items()}
    ends = {"least": found.least_s, **shares, "greatest": found.greatest_s}
    return {**ends, "bars": [{"up_to": end_s, "count": count} for end_s, count in found.bars()]}


def _show_progress(report: Report) -> None:
    parts = []
    if report.load.publishers:
        parts.append(f"{report.sent:,} published")
    if report.delivered:
        parts.append(f"{sum(report.delivered):,} delivered")
    err.print(", ".join(parts), style="dim")


def _print_report(report: Report) -> None:
    load = report.load
    out.print(escape(f"topic: {load.pattern}"))
    if load.publishers:
        out.print(_flow("published", report.sent, report.sent_s, load.size))
    if load.subscribers:
        each = f" to {load.subscribers:,} subscribers" if load.subscribers > 1 else ""
        out.print(_flow(f"delivered{each}", sum(report.delivered), report.delivered_s, load.size))
    kinds = {"receipt": report.receipts, "delivery": report.deliveries}
    rows = [
        (name, *(_ms(found.percentile_s(share)) for share in SHARES.values()), _ms(found.greatest_s))
        for name, found in kinds.items()
        if found.count
    ]
    if rows:
        out.print()
        print_table(("ms", *SHARES, "max"), rows)
    for name, found in kinds.items():
        _print_bars(name, found)


def _print_bars(name: str, found: Histogram) -> None:
    bars = list(found.bars())
    if not bars:
        return
    most = max(count for _, count in bars)
    out.print()
    out.print(f"{name}, ms")
    for end_s, count in bars:
        bar = "█" * max(round(count / most * BAR_COLUMNS), 1 if count else 0)
        out.print(f"  ≤ {_plain_ms(end_s):>8}  {bar:<{BAR_COLUMNS}}  {count / found.count:7.2%}", soft_wrap=True)


def _flow(what: str, events: int, seconds: float, size: int) -> str:
    rate = _rate(events, seconds)
    return f"{what}: {events:,} events in {seconds:.2f} s, {rate:,.0f}/s, {human_bytes(int(rate * size))}/s"


def _rate(events: int, seconds: float) -> float:
    return events / seconds if seconds else 0.0


def _ms(time_s: float) -> str:
    return f"{time_s * 1e3:,.2f}"


def _plain_ms(time_s: float) -> str:
    return f"{time_s * 1e3:g}"
