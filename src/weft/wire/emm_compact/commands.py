"""Which commands are carried out: signed ones, with sound parameters, that somebody registered by name (EMC-07)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.errors import UsageError
from weft.wire.emm_compact.auth import KeyRing, verify_untrusted
from weft.wire.emm_compact.body import Command
from weft.wire.emm_compact.content import content_untrusted
from weft.wire.emm_compact.packet import Packet
from weft.wire.reject import BadPacket, Reject


@dataclass(frozen=True, slots=True)
class Handler:
    """What to do for one command name.

    ``check`` turns the parameters, decompressed and as UTF-8 (see ``content``), into arguments; it refuses them with a
    ValueError, as the decoders of msgspec do. ``run`` gets what it returns.
    """

    check: Callable[[bytes], Any]
    run: Callable[[Any], None]


def execute_untrusted(packet: Packet, ring: KeyRing, handlers: Mapping[str, Handler]) -> bool:
    """Run the handler of a command; False if nobody registered that name, which is no error.

    Raise only BadPacket before a handler runs: the signature is checked first, then the parameters.
    """
    if not isinstance(packet.body, Command):
        raise UsageError("only commands can be executed", type=packet.header.type.name)
    verify_untrusted(packet, ring)
    handler = handlers.get(packet.body.name)
    if handler is None:
        return False
    try:
        arguments = handler.check(content_untrusted(packet.body.parameters, packet.body.more))
    except (ValueError, RecursionError) as error:
        raise BadPacket(Reject.TLV_VALUE, f"parameters of {packet.body.name} are refused", why=error) from None
    handler.run(arguments)
    return True
