"""The sections of a node's configuration for other protocols: ``[gateway.exmp]`` and others.

A gateway opens nothing unless an address for it is given.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, InstanceOf

from weft.configuration import Section
from weft.limits import (
    EXMP_CONNECTIONS_MAX,
    EXMP_HANDSHAKE_TIMEOUT_S,
    EXMP_PENDING_MAX,
    EXMP_PING_INTERVAL_S,
    EXMP_PONG_TIMEOUT_S,
)
from weft.node.config.coaty import CoatySection
from weft.node.config.emm import EmmSection
from weft.node.config.sections import Int, Seconds, Selection, knob, parsed_by, split_list
from weft.security.acl import parse_group_right
from weft.transport.addresses import Address, parse_address_or_host
from weft.wire.exmp import DEFAULT_PORT, DEFAULT_TLS_PORT

ExmpTcp = Annotated[InstanceOf[Address], parsed_by(lambda text: parse_address_or_host(text, DEFAULT_PORT))]
ExmpTls = Annotated[InstanceOf[Address], parsed_by(lambda text: parse_address_or_host(text, DEFAULT_TLS_PORT))]
Selections = Annotated[tuple[Selection, ...], BeforeValidator(split_list)]
GroupRight = Annotated[str, parsed_by(parse_group_right)]
GroupRights = Annotated[tuple[GroupRight, ...], BeforeValidator(split_list)]


class ExmpSection(Section):
    """EXMP: requests and responses in JSON ([more](exmp.md))."""

    tcp: ExmpTcp | None = Field(
        default=None,
        description=f"Listen for plain text, on a loopback address. The port is {DEFAULT_PORT} if none is given. "
        "Unset: no plain text.",
    )
    tls: ExmpTls | None = Field(
        default=None,
        description=f"Listen with this node's certificate. The port is {DEFAULT_TLS_PORT} if none is given. "
        "Unset: no TLS.",
    )
    publish: Selections = Field(
        default=(),
        max_length=256,
        description="Topics to which clients may publish that show a client certificate of this mesh and no API key.",
    )
    subscribe: Selections = Field(default=(), max_length=256, description="Topics that such clients may read.")
    groups: GroupRights | None = Field(
        default=None,
        max_length=256,
        description="Groups that such clients may use: names, or the beginning of a name and a star. Unset: the groups "
        "that read only topics that such clients may read.",
    )
    connections_max: Int = knob(EXMP_CONNECTIONS_MAX, 1, 100_000, "Connections that are open at a time.")
    pending_max: Int = knob(
        EXMP_PENDING_MAX,
        1,
        65_536,
        "Requests of one connection that are not answered yet. With so many, the node stops reading from it.",
    )
    handshake_timeout_s: Seconds = knob(
        EXMP_HANDSHAKE_TIMEOUT_S, 0.1, 600.0, "How long a client may take to say hello."
    )
    ping_interval_s: Seconds = knob(
        EXMP_PING_INTERVAL_S, 0.1, 3600.0, "Time between pings on a connection that sends nothing else."
    )
    pong_timeout_s: Seconds = knob(
        EXMP_PONG_TIMEOUT_S, 0.1, 3600.0, "How long to wait for the answer to a ping before the connection is closed."
    )


class GatewaySection(Section):
    """Other protocols joined to the mesh."""

    exmp: ExmpSection = ExmpSection()
    emm: EmmSection = EmmSection()
    coaty: CoatySection = CoatySection()
