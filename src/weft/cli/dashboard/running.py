"""Runs the screen of ``weft top``, or prints the board once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any

from weft.cli.connection import choose_target
from weft.cli.dashboard.asking import Asking
from weft.cli.dashboard.board import Board
from weft.cli.options import INTERRUPTED, Where
from weft.cli.tables import print_json
from weft.errors import UsageError
from weft.model import parse_pattern


def watch(where: Where, pattern: str, interval_s: float) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("`weft top` needs a terminal; --json is for programs")
    from weft.cli.dashboard.app import Top

    target = choose_target(where, os.environ)

    async def session() -> None:
        async with Asking(target, parse_pattern(pattern)) as asking:
            await Top(asking, interval_s).run_async()

    _run(session())


def print_board(where: Where, pattern: str, interval_s: float) -> None:
    """Rates need two looks."""
    target, board = choose_target(where, os.environ), Board()

    async def session() -> None:
        async with Asking(target, parse_pattern(pattern)) as asking:
            board.take(await asking.answers())
            await asyncio.sleep(interval_s)
            board.take(await asking.answers())

    _run(session())
    assert board.answers is not None, "asked twice"
    print_json(
        {
            "node": board.answers.node_id,
            "nodes": [asdict(row) for row in board.nodes],
            "topics": [asdict(row) for row in board.topics],
            "groups": [asdict(row) for row in board.groups],
            "refused": board.answers.refused,
        }
    )


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
