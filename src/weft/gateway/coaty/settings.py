"""The settings of the bridge, as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.limits import LIBP2P_CONNECTIONS_MAX

ISLAND_CHARS_MAX: Final = 128  # a peer id has 53
COATY_LEARNED_MAX: Final = 1024  # topics that agents announce; each is a subscription that neighbours keep, too


@dataclass(frozen=True, slots=True)
class CoatySettings:
    """``[gateway.coaty]``; ``weft.node.config.coaty`` documents each."""

    namespace: str
    identity: Path  # the file of the key behind the bridge's peer id
    listen: tuple[str, int]
    bootstrap: tuple[str, ...] = ()
    mdns: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    io_contexts: tuple[str, ...] = ()
    raw_topics: tuple[str, ...] = ()
    learned_max: int = COATY_LEARNED_MAX
    connections_max: int = LIBP2P_CONNECTIONS_MAX
    island: str = ""
    name: str = "weft"
