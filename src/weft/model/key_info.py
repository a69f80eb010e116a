"""An API key as nodes show it to administrators: everything but the secret and its hash."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in Unix seconds."""

    id: str
    name: str
    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = ()  # None: the key was made before there were such rights
    admin: bool = False
    quota: Mapping[str, int] = {}  # the key's own
    limits: Mapping[str, int] = {}  # what holds at the answering node: the quota, and the node's settings for the rest
    used: Mapping[str, int] = {}  # of these limits, at that node, since it started
    created_s: int = 0
    expires_s: int | None = None
    made_by: str = ""  # the node; empty: a command wrote it to the node's directory, and the mesh does not know it yet
    by: str = ""  # on whose request the node made it
    known_s: int | None = None  # since when the answering node knows it
