"""Changes of schemas that come at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.node.running import running_node
from weft.model import Pattern
from weft.schema import Kind, parse_schema
from weft.schema.compatibility import Compatibility
from weft.schema.registry import Change

SHOP = Pattern("shop.>")


def _change(text: str) -> Change:
    return Change(parse_schema(Kind.DDL, text), None, Compatibility.NONE)


@pytest.mark.req("LAK-02")
async def test_of_two_changes_at_once_the_second_is_based_on_the_first(tmp_path: Path) -> None:
    async with running_node(tmp_path) as node:
        schemas = node._machinery.schemas
        await schemas.put(SHOP, _change("a BIGINT"), "a test", dry_run=False)
        texts = ("a BIGINT, b STRING", "a BIGINT, c STRING")
        puts = (schemas.put(SHOP, _change(text), "a test", dry_run=False) for text in texts)
        told = [each.latest for each in await asyncio.gather(*puts)]
        assert [each.number for each in told] == [2, 3], "who was told of a version finds it under its number"
        (known,) = await schemas.list()
        assert list(known.versions[1:]) == told
