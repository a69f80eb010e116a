"""Runs the screen of ``weft top``, or prints the board once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any, TypeVar

from weft.cli.connection import choose_target
from weft.cli.dashboard.asking import Asking
from weft.cli.dashboard.board import Board
from weft.cli.options import INTERRUPTED, Where
from weft.cli.tables import print_json
from weft.errors import UsageError
from weft.model import parse_pattern

T = TypeVar("T")


def watch(where: Where, pattern: str, interval_s: float) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("`weft top` needs a terminal; --json is for programs")
    from weft.cli.dashboard.app import Top

    target = choose_target(where, os.environ)

    async def session() -> int:
        async with Asking(target, parse_pattern(pattern)) as asking:
            screen = Top(asking, interval_s)
            await screen.run_async()
        return screen.return_code or 0

    if status := _run(session()):
        raise SystemExit(status)


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


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
