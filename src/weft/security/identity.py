"""An identity: a node or a client of a mesh, as a SPIFFE id in a certificate (SEC-01).

``spiffe://<mesh>/node/<node id>`` and ``spiffe://<mesh>/client/<name>``. Names follow the rules of node ids.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from weft.errors import UsageError
from weft.model import BadName, parse_node_id

# A trust domain in SPIFFE's form: lower case, no port, no user.
MESH: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?")
URI: Final = re.compile(r"spiffe://([^/]{1,128})/(node|client)/([^/]{1,64})")


class BadIdentity(UsageError):
    """Not the SPIFFE id of a node or a client."""


class Kind(StrEnum):
    NODE = "node"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Identity:
    """Made by ``node``, ``client`` or ``parse_identity_untrusted``, which check the names."""

    mesh: str
    kind: Kind
    name: str

    @property
    def uri(self) -> str:
        return f"spiffe://{self.mesh}/{self.kind}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of mesh {self.mesh}"


def node(mesh: str, node_id: str) -> Identity:
    return _identity(mesh, Kind.NODE, node_id)


def client(mesh: str, name: str) -> Identity:
    return _identity(mesh, Kind.CLIENT, name)


def parse_identity_untrusted(uri: str) -> Identity:
    """Raise only BadIdentity, whatever the text."""
    found = URI.fullmatch(uri)
    if not found:
        raise BadIdentity(f"{uri[:200]!r} is not spiffe://MESH/node/ID or spiffe://MESH/client/NAME")
    mesh, kind, name = found.groups()
    return _identity(mesh, Kind(kind), name)


def check_mesh(name: str) -> str:
    if not MESH.fullmatch(name):
        raise BadIdentity(f"{name[:200]!r} is not a name for a mesh: use at most 128 of a-z, 0-9, '.', '_' and '-'")
    return name


def _identity(mesh: str, kind: Kind, name: str) -> Identity:
    try:
        return Identity(check_mesh(mesh), kind, parse_node_id(name))
    except BadName:
        raise BadIdentity(
            f"{name[:200]!r} is no name for a {kind}: use at most 64 ASCII letters, digits, '-', '_' and '.'"
        ) from None
