"""Which commands are carried out: signed ones with valid parameters whose names are registered (EMC-07)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from weft.errors import UsageError
from weft.wire.emm_compact.auth import KeyRing, verify_untrusted
from weft.wire.emm_compact.body import Command, Field
from weft.wire.emm_compact.codes import FieldType, Priority
from weft.wire.emm_compact.content import compressed_if_smaller, content_untrusted
from weft.wire.emm_compact.packet import Packet
from weft.wire.reject import BadPacket, Reject

EXPIRY_S_MAX: Final = 255  # one byte


@dataclass(frozen=True, slots=True)
class Handler:
    """What to do for one command name.

    ``check`` turns the parameters, decompressed and as UTF-8 (see ``content``), into arguments; it refuses them with a
    ValueError, as the decoders of msgspec do. ``run`` gets what it returns.
    """

    check: Callable[[bytes], Any]
    run: Callable[[Any], None]


def draft_command(
    name: str,
    parameters: bytes,
    node_id: UUID,
    *,
    priority: Priority | None = None,
    expiry_s: int | None = None,
    trace_id: UUID | None = None,
    compress: bool = False,
) -> Command:
    """Make a command of that node, with its optional fields; UsageError for what no field can express.

    ``expiry_s``: the age from which nodes must not carry it out. ``compress``: if that makes it smaller.
    """
    more = [Field(FieldType.NODE_ID, node_id.bytes)]
    if compress:
        parameters, said = compressed_if_smaller(parameters)
        more += said
    if priority is not None:
        more.append(Field(FieldType.EVENT_PRIORITY, bytes((priority,))))
    if expiry_s is not None:
        if not 0 <= expiry_s <= EXPIRY_S_MAX:
            raise UsageError("expiry is out of range", value=expiry_s, limit=EXPIRY_S_MAX)
        more.append(Field(FieldType.EXPIRY_HINT, bytes((expiry_s,))))
    if trace_id is not None:
        more.append(Field(FieldType.TRACE_ID, trace_id.bytes))
    return Command(name, parameters, tuple(more))


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
