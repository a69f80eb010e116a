"""The examples of docs/emm-compact.md run as they stand, and its table of settings is complete."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_for
from tests.emm_compact.nodes import WAIT_S, node
from tests.emm_compact.world import GROUP_KEY, node_id, ring_of, signer
from weft.emm_compact import Epochs, Node, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "emm-compact.md").read_text()
EXAMPLES = blocks_for("docs/emm-compact.md", __file__)


@pytest.mark.parametrize("block", EXAMPLES, ids=[block.place for block in EXAMPLES])
async def test_example(block: Block) -> None:
    async def chatter(other: Node) -> None:
        """Publishes as soon as somebody listens, and again."""
        while True:
            await other.publish("hello")
            await asyncio.sleep(0.01)

    async with node(1) as other:
        talking = asyncio.create_task(chatter(other))
        names: dict[str, object] = {}
        exec(compile(block.code, block.place, "exec"), names)
        main = names["main"]
        assert callable(main)
        await asyncio.wait_for(main(node_id(0), GROUP_KEY, signer(0).seed, ring_of(range(2)), other.address), WAIT_S)
        talking.cancel()
        await asyncio.wait([talking])


def test_every_setting_is_explained_with_its_default() -> None:
    told: dict[str, str] = {}
    section = PAGE.partition("## Settings")[2]
    for names, values in re.findall(r"^\| (`.+?`) \| (.+?) \|", section, re.MULTILINE):
        told |= dict(zip(re.findall(r"`(\w+)`", names), values.split(", "), strict=True))
    words = {"none": (), "empty": b"", "empty text": "", "unset": None, "clock": Epochs.CLOCK}
    settings = Settings()
    assert {name: words[value] if value in words else float(value) for name, value in told.items()} == {
        each.name: getattr(settings, each.name) for each in fields(Settings)
    }
