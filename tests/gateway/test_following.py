"""A gateway's subscription, with a node that the test plays."""

from __future__ import annotations

import asyncio
from typing import cast

from tests.gateway.exmp.fakes import FakeMesh, delivered
from weft.core.messages import Delivered
from weft.gateway.following import Following
from weft.model import Pattern
from weft.port.node import MeshNode


async def test_a_defect_in_what_takes_its_batches_does_not_go_unnoticed() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))

    async def take(batch: Delivered) -> None:
        raise ValueError("a defect")

    mesh = FakeMesh()
    following = Following(cast(MeshNode, mesh), Pattern(">"), take, lambda error: None, credit_bytes=1000)
    following.start()
    mesh.subscriber.deliver([delivered("a", 0, [b"x"])])
    for _ in range(4):
        await asyncio.sleep(0)
    assert [str(each) for each in told] == ["a defect"]
    await following.close()
