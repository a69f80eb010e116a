"""The parts of a node together."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from weft.node.machinery import Machinery


async def test_groups_tell_their_positions_at_the_end_even_if_a_publisher_waits_in_vain() -> None:
    """For copies that no peer makes, say."""
    done: list[str] = []

    async def for_ever() -> None:
        await asyncio.Event().wait()

    parts = SimpleNamespace(
        clients=SimpleNamespace(drain=lambda: done.append("clients drain"), wait_gone=for_ever),
        calls=SimpleNamespace(
            drain=lambda: done.append("calls drain"), wait_done=for_ever, close=lambda: done.append("calls close")
        ),
        engine=SimpleNamespace(finish=lambda: done.append("groups tell")),
        _storage=SimpleNamespace(wait_synced=for_ever),
    )
    await Machinery.drain(cast("Machinery", parts), 0.0)
    assert done == ["clients drain", "calls drain", "groups tell", "calls close"]
