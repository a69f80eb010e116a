"""Whether a caller may use a group: checked wherever one is named (SEC-03)."""

from __future__ import annotations

import asyncio
from itertools import chain, islice

from weft.core.groups import Groups
from weft.core.groups.names import parse_group
from weft.limits import LOOK_STREAMS_AT_ONCE
from weft.model import Pattern
from weft.port.access import Caller


async def check_group(groups: Groups, caller: Caller, group: str) -> None:
    """Raise NotAllowed, or UsageError for what is not a name.

    A group may read a hundred thousand topics, so others have their turn in between.
    """
    parse_group(group)
    if caller.names_groups:
        caller.check_group(group)
        return
    topics = (Pattern(stream.topic) for stream, _ in groups.streams(group))
    reads = chain((each.pattern for each in groups.members(group)), topics)
    while some := list(dict.fromkeys(islice(reads, LOOK_STREAMS_AT_ONCE))):
        caller.check_group(group, some)
        await asyncio.sleep(0)
