"""Addresses as people write them: HOST:PORT, with IPv6 hosts in brackets."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from weft.errors import UsageError
from weft.model.topic import quoted

PORT_MAX: Final = 65_535
HOST_CHARACTERS_MAX: Final = 253  # of a DNS name
HOST_AND_PORT: Final = re.compile(
    rf"(?:\[([0-9A-Fa-f:.]{{2,45}})\]|([A-Za-z0-9._-]{{1,{HOST_CHARACTERS_MAX}}})):(0|[1-9][0-9]{{0,4}})"
)


class BadAddress(UsageError):
    """Not HOST:PORT."""


class Address(NamedTuple):
    """Where to listen, or what to dial. It is a tuple, so that socket calls take it as it is."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. The only host name that counts as local is ``localhost``."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    @property
    def is_wildcard(self) -> bool:
        """Whether it means every address of this machine. Other machines cannot use such an address."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address_or_host(text: str, port: int) -> Address:
    """Parse HOST:PORT, or HOST alone for the protocol's own ``port``; BadAddress."""
    try:
        return parse_address(text)
    except BadAddress:
        if HOST_AND_PORT.fullmatch(f"{text}:0") is None:
            raise
        return parse_address(f"{text}:{port}")


def parse_address(text: str) -> Address:
    """Parse ``127.0.0.1:7400``, ``node-b.example.org:7400`` or ``[::1]:7400``, or raise BadAddress. Port 0 takes any
    free port."""
    found = HOST_AND_PORT.fullmatch(text)
    if not found:
        raise BadAddress(f"{quoted(text)} is not HOST:PORT, like 127.0.0.1:7400 or [::1]:7400")
    literal, name, port = found.groups()
    if int(port) > PORT_MAX:
        raise BadAddress(f"{quoted(text)} has no such port", port=port, limit=PORT_MAX)
    if literal is not None:
        try:
            return Address(str(IPv6Address(literal)), int(port))
        except ValueError:
            raise BadAddress(f"{quoted(text)} has no IPv6 address between its brackets") from None
    return Address(name, int(port))
