"""The examples of docs/emm.md run as they stand."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.emm.world import KEY_ID, node_id, secret, trust_of
from weft import emm

PAGE = (Path(__file__).parents[2] / "docs" / "emm.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("code", EXAMPLES)
def test_example(code: str) -> None:
    async def story() -> None:
        names: dict[str, Any] = {}
        exec(compile(code, "docs/emm.md", "exec"), names)
        credentials = [emm.Credentials(KEY_ID, hmac_key=secret(number)) for number in range(2)]
        async with emm.Node(node_id(1), credentials[1], trust_of(2)) as other:

            async def answer() -> None:
                async for event in other.events():
                    await other.publish("answer", event.name)

            answering = asyncio.create_task(answer())
            async with asyncio.timeout(20):
                await names["main"](node_id(0), credentials[0], trust_of(2), other.address)
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    asyncio.run(story())
