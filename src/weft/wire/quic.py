"""Addresses of QUIC connections. The same host and port may talk plain UDP, too, so the host says which it is.

Code that decides where packets may go has to tell the two apart: anybody on the way can read what goes by UDP (EMM-28).
"""

from __future__ import annotations

from typing import Final

from weft.wire.udp import Address, show

SCHEME: Final = "quic/"


def quic_address(address: Address) -> Address:
    host, *rest = address
    return (f"{SCHEME}{host}", *rest)  # type: ignore[return-value]


def is_quic(address: Address) -> bool:
    return address[0].startswith(SCHEME)


def show_any(address: Address) -> str:
    """``127.0.0.1:4700``, ``quic/127.0.0.1:4700``, ``quic/[::1]:4700``."""
    if not is_quic(address):
        return show(address)
    host, *rest = address
    return f"{SCHEME}{show((host.removeprefix(SCHEME), *rest))}"  # type: ignore[arg-type]
