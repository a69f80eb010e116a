"""``weft backup``, ``weft restore`` and ``weft upgrade --check``: save, put back and look at a data directory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from weft.cli.options import Json

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The node's data directory.", show_default=False)]


def backup(
    target: Annotated[Path, typer.Argument(metavar="BACKUP", help="A new directory.", show_default=False)],
    data: Data = Path("weft-data"),
    log_only: Annotated[bool, typer.Option("--log-only", help="Leave out certificates, keys and trust.")] = False,
    json: Json = False,
) -> None:
    """Save a node, running or not: its events, positions, certificates and keys, as they are now.

    The backup is as secret as the node: it holds private keys, unless --log-only is given.
    """
    from weft.cli.console import out
    from weft.cli.log.input import explaining
    from weft.cli.progress import working
    from weft.cli.tables import counted, print_json
    from weft.node.backup import take_backup

    with working(f"backing up {data}") as progress, explaining(data):
        taken = take_backup(data, target, log_only=log_only, now_ms=_now_ms(), progress=progress)
    if json:
        print_json(taken)
    else:
        what = "the log only" if taken.log_only else counted(taken.files, "other file")
        out.print(
            f"{escape(str(target))}: {counted(taken.events, 'event')} in {counted(taken.streams, 'stream')} of node "
            f"{escape(taken.node)}, epoch {taken.epoch}; {what}",
            soft_wrap=True,
        )


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="A backup that weft backup made.", show_default=False)
    ],
    data: Data,
    json: Json = False,
) -> None:
    """Make a data directory from a backup. Start the node on it with weft up, and only there.

    The node's streams continue in a new epoch, because others may know offsets that it gave after the backup was taken.
    """
    from weft.cli.console import out
    from weft.cli.log.input import explaining
    from weft.cli.progress import working
    from weft.cli.tables import counted, human_time, print_json
    from weft.node.backup import restore as put_back

    with working(f"restoring {source}") as progress, explaining(source):
        restored = put_back(source, data, now_ms=_now_ms(), progress=progress)
    if json:
        print_json(restored)
        return
    taken = restored.backup
    what = f"{counted(taken.events, 'event')} in {counted(taken.streams, 'stream')} of node {escape(taken.node)}"
    for line in (
        f"{escape(str(data))}: {what}, as of {human_time(taken.taken_ms * 1000)}",
        f"this node's streams go on in the new epoch {restored.epoch}; events that it took after the backup are "
        "missing",
        "it has no certificates: enrol it again (weft ca token)" if taken.log_only else "",
        f"start it with weft up --data {escape(str(data))}",
    ):
        if line:
            out.print(line, soft_wrap=True)


def upgrade(
    check: Annotated[bool, typer.Option("--check", help="Check whether this version can read the data.")] = False,
    data: Data = Path("weft-data"),
    json: Json = False,
) -> None:
    """Say whether this version of Weft can read a data directory, and what it would change. Changes nothing.

    Exit status 1 if it cannot. Run it with the new version before you start a node with that version.
    """
    from weft import __version__
    from weft.cli.console import fail, out
    from weft.cli.tables import print_json, print_table
    from weft.errors import UsageError
    from weft.node.backup import check_is_no_backup
    from weft.node.upgrading import formats

    if not check:
        raise UsageError("weft itself is upgraded with pip; this command only checks: weft upgrade --check --data DIR")
    if not data.is_dir():
        raise UsageError(f"{data} is not a directory")
    check_is_no_backup(data)
    found = list(formats(data))
    unreadable = [each for each in found if not each.is_readable]
    if json:
        parts = [{**each._asdict(), "readable": each.is_readable} for each in found]
        print_json({"weft": __version__, "readable": not unreadable, "parts": parts})
    elif not found:
        out.print(f"{escape(str(data))} holds no data of a node yet")
    else:
        rows = [
            (each.part, "?" if each.found is None else str(each.found), ", ".join(map(str, each.known)), each.note)
            for each in found
        ]
        print_table(("part", "format", f"weft {__version__} reads", "note"), rows, names=4)
    if unreadable and not json:
        fail(f"weft {__version__} cannot read {data}: start the version that wrote it, or a newer one")
    if unreadable:
        raise typer.Exit(1)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
