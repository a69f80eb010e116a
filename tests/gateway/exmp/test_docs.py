"""The examples of docs/exmp.md run as they stand, and its tables are complete."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import Block, blocks_for
from tests.gateway.exmp.joined import PATIENCE_S, address_of
from tests.node.running import running_node
from weft.gateway.exmp.operations import operations
from weft.gateway.exmp.session import ECHO, ENDED, EVENT, PUBLISH
from weft.gateway.exmp.values import Fields, NoFields

PAGE = (Path(__file__).parents[3] / "docs" / "exmp.md").read_text()
EXAMPLES = blocks_for("docs/exmp.md", __file__)


@pytest.mark.parametrize("block", EXAMPLES, ids=[block.place for block in EXAMPLES])
async def test_example(block: Block, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(block.code, block.place, "exec"), names)
    async with running_node(tmp_path, gateway__exmp__tcp="127.0.0.1:0") as node:
        await asyncio.wait_for(names["main"](address_of(node)), PATIENCE_S)


@pytest.mark.req("EXM-11")
def test_every_operation_and_every_field_is_explained() -> None:
    rows = dict(re.findall(r"^\| `([$\w]+)` \| (.+) \|$", PAGE, re.MULTILINE))
    known = {ECHO, PUBLISH, EVENT, ENDED, *operations(lambda: None, None)}  # type: ignore[arg-type, return-value]
    assert known <= rows.keys()
    for kind in Fields.__subclasses__():
        if kind is not NoFields:
            row = rows[kind.__name__.removesuffix("Fields").lower()]
            assert not [name for name in kind.__struct_fields__ if f"`{name}`" not in row], kind
