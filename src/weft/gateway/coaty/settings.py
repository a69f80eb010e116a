"""What can be set about the bridge, as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CoatySettings:
    """``[gateway.coaty]``; ``weft.node.config.coaty`` documents each. Floodsub has no wildcards, so channels,
    operations and IO contexts have to be named."""

    namespace: str
    identity: Path  # the file of the key behind the bridge's peer id
    listen: tuple[str, int]
    bootstrap: tuple[str, ...] = ()
    mdns: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    io_contexts: tuple[str, ...] = ()
    name: str = "weft"
