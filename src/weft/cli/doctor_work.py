"""What ``weft doctor`` does: settings, one check after the other, a table."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.markup import escape
from rich.table import Table

from weft.cli.console import out
from weft.cli.examination import Check, Finding, Patient, Verdict, bad, examine
from weft.cli.examination.certificates import certificates, root_key
from weft.cli.examination.machine import clock, data_directory, descriptors, disk, log, settings
from weft.cli.examination.network import authority, node, peers, ports
from weft.cli.tables import print_json
from weft.configuration import BadConfig
from weft.log.claim import is_claimed
from weft.node.config.loading import load_config

CHECKS: Final[dict[str, Check]] = {
    "settings": settings,
    "data directory": data_directory,
    "disk": disk,
    "clock": clock,
    "file descriptors": descriptors,
    "certificates": certificates,
    "root key": root_key,
    "CA": authority,
    "ports": ports,
    "node": node,
    "peers": peers,
    "log": log,
}
COLOURS: Final = {Verdict.OK: "green", Verdict.WARNING: "yellow", Verdict.BAD: "bold red"}


def report(file: Path | None, flags: Mapping[str, object], json: bool) -> bool:
    """Print what was found; whether nothing of it is bad."""
    found = list(_findings(file, flags))
    is_well = all(each.verdict is not Verdict.BAD for each in found)
    if json:
        print_json({"ok": is_well, "findings": found})
    else:
        _print(found)
    return is_well


def _findings(file: Path | None, flags: Mapping[str, object]) -> Iterator[Finding]:
    try:
        config = load_config(file, os.environ, flags)
    except BadConfig as error:
        yield bad("settings", str(error), "correct it: docs/configuration.md has all settings")
        return
    data = config.node.data
    yield from examine(Patient(config, data.is_dir() and is_claimed(data), time.time()), CHECKS)


def _print(found: Sequence[Finding]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("check", "", "found", "what to do"):
        table.add_column(heading, overflow="fold")
    for each in found:
        colour = COLOURS[each.verdict]
        table.add_row(escape(each.check), f"[{colour}]{each.verdict}[/]", escape(each.found), escape(each.advice))
    out.print(table)
    counts = Counter(each.verdict for each in found)
    out.print(", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict))
