"""The gateways that a node's configuration names.

Their code is loaded only when one is configured: a node without gateways starts in half the time, and with 60 MB less.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from structlog.stdlib import BoundLogger

from weft.gateway import BridgeGateway, DatagramGateway, Gateway, RequestGateway
from weft.node.answers import NodeAnswers
from weft.node.config import NodeConfig
from weft.node.entrances import Entrances
from weft.node.protection import Plain, Protection, Secured
from weft.port.calls import CallDesk
from weft.port.later import LaterStore
from weft.port.node import MeshNode
from weft.wire.mesh import mesh_pb2 as pb


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a gateway may use of its node."""

    config: NodeConfig
    mesh: MeshNode
    desk: CallDesk
    later: LaterStore
    answers: NodeAnswers
    protection: Protection
    entrances: Entrances
    logger: BoundLogger


def make_gateways(node: Surroundings) -> tuple[Gateway, ...]:
    wanted = (_exmp(node), _emm(node), _coaty(node))
    return tuple(each for each in wanted if each is not None)


def gateway_info(gateway: Gateway) -> pb.GatewayInfo:
    """What a gateway has done, for operators."""
    info = pb.GatewayInfo(listeners=gateway.listeners)
    if isinstance(gateway, DatagramGateway):
        info.protocol = "emm"
        info.verdicts.update(gateway.fates())
        info.refused.update(gateway.rejected())
    elif isinstance(gateway, BridgeGateway):
        figures = gateway.bridge_figures()
        info.protocol = "coaty"
        info.verdicts.update({f"in: {fate}": count for fate, count in figures.events_in.items()})
        info.verdicts.update({f"out: {fate}": count for fate, count in figures.events_out.items()})
        refused = {"topics": figures.topics_refused, "connections": figures.connections_refused}
        info.refused.update(refused | {"distrusted": figures.distrusted})
    elif isinstance(gateway, RequestGateway):
        answered = gateway.request_figures()
        info.protocol = "exmp"
        info.verdicts.update({f"{operation}: {said}": count for (operation, said), count in answered.requests.items()})
        info.refused.update({"connections": answered.connections_refused})
    return info


def _exmp(node: Surroundings) -> Gateway | None:
    section = node.config.gateway.exmp
    if section.tcp is None and (section.tls is None or isinstance(node.protection, Plain)):
        return None
    from weft.gateway.exmp.admission import Admission, KeyAdmission, OpenAdmission
    from weft.gateway.exmp.gateway import ExmpGateway, ExmpSettings, Port
    from weft.transport.tcp import renewing

    ports = [] if section.tcp is None else [Port(*section.tcp)]
    match node.protection:
        case Plain(access=access):
            admission: Admission = OpenAdmission(access)
        case Secured(access=access) as secured:
            rights = (section.publish, section.subscribe, section.groups)
            admission = KeyAdmission(access, node.config.node.mesh, *rights)
            if section.tls is not None:
                ports.append(Port(*section.tls, tls=renewing(secured.server_context)))
    settings = ExmpSettings(
        connections_max=section.connections_max,
        pending_max=section.pending_max,
        handshake_timeout_s=section.handshake_timeout_s,
        ping_interval_s=section.ping_interval_s,
        pong_timeout_s=section.pong_timeout_s,
    )
    status, make_door = node.answers.status, node.entrances.exmp
    return ExmpGateway(node.mesh, node.desk, node.later, status, admission, ports, settings, _now_us, make_door)


def _emm(node: Surroundings) -> Gateway | None:
    settings = node.config.gateway.emm.settings()
    if settings is None:
        return None
    from weft.gateway.emm.gateway import EmmGateway

    certificate = node.protection.certificate if isinstance(node.protection, Secured) else None
    return EmmGateway(node.mesh, node.config.node.data, settings, certificate, node.logger, node.entrances.quic())


def _coaty(node: Surroundings) -> Gateway | None:
    settings = node.config.gateway.coaty.settings(node.config.node.data)
    if settings is None:
        return None
    from weft.gateway.coaty.gateway import CoatyGateway

    return CoatyGateway(node.mesh, node.config.node.mesh, settings, _now_us, node.logger, node.entrances.coaty())


def _now_us() -> int:
    return time.time_ns() // 1000
