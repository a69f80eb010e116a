"""A node's EXMP: its ports, and a session for every connection."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.doors import Door
from weft.gateway import RequestFigures
from weft.gateway.exmp.admission import Admission
from weft.gateway.exmp.operations import Status, operations
from weft.gateway.exmp.outcomes import RequestCounts
from weft.gateway.exmp.session import EXMP_STRANGER_BYTES_MAX, ClientSession
from weft.gateway.publishing import Publishing
from weft.limits import MIB
from weft.port.calls import CallDesk
from weft.port.later import LaterStore
from weft.port.node import MeshNode
from weft.transport.tcp import EXMP_SURPLUS_MAX, ExmpConnection, Listener
from weft.wire.exmp import Settings

EXMP_GATEWAY_QUEUE_BYTES_MAX: Final = 1 * MIB  # of requests behind the current one, on each of 4,096 connections


@dataclass(frozen=True, slots=True)
class Port:
    """Where to listen; for TLS, with a context."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None

    @property
    def name(self) -> str:
        return "exmp" if self.tls is None else "exmps"

    def named(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name} {host}:{port}"


@dataclass(frozen=True, slots=True)
class ExmpSettings:
    """What an operator may set; ``weft.node.config.gateways`` documents each."""

    connections_max: int
    pending_max: int
    handshake_timeout_s: float
    ping_interval_s: float
    pong_timeout_s: float

    def of_connection(self) -> Settings:
        """As a stranger gets it."""
        return Settings(
            message_bytes_max=EXMP_STRANGER_BYTES_MAX,
            pending_max=self.pending_max,
            queue_bytes_max=EXMP_GATEWAY_QUEUE_BYTES_MAX,
            handshake_timeout_s=self.handshake_timeout_s,
            ping_interval_s=self.ping_interval_s,
            pong_timeout_s=self.pong_timeout_s,
        )


class ExmpGateway:
    """``Gateway`` for EXMP. ``read_clock`` returns Unix time in microseconds; ``make_door`` makes the door of a port
    with that name, for so many connections."""

    def __init__(
        self,
        mesh: MeshNode,
        desk: CallDesk,
        later: LaterStore,
        read_status: Status,
        admission: Admission,
        ports: Sequence[Port],
        settings: ExmpSettings,
        read_clock: Callable[[], int],
        make_door: Callable[[str, int], Door] | None = None,
    ) -> None:
        self._mesh = mesh
        self._admission = admission
        self._ports = ports
        self._settings = settings
        self._make_door = make_door
        self._operations = operations(read_status, desk)
        self._publishing = Publishing(mesh, read_clock, "the EXMP gateway", later)
        self._tasks: set[asyncio.Task[None]] = set()  # of all sessions
        self._sessions: set[ClientSession] = set()
        self._counts = RequestCounts()
        self._open: list[Listener] = []
        self._listeners: list[str] = []

    @property
    def listeners(self) -> Sequence[str]:
        return self._listeners

    def request_figures(self) -> RequestFigures:
        return RequestFigures(
            connections=sum(listener.connections for listener in self._open),
            connections_refused=sum(listener.refused for listener in self._open),
            connections_ended={str(end): count for end, count in list(self._counts.ends.items())},
            requests=dict(self._counts.requests),
            bytes_received=sum(listener.traffic.bytes_received for listener in self._open),
            bytes_sent=sum(listener.traffic.bytes_sent for listener in self._open),
            subscriptions=sum(len(session.feeds) for session in list(self._sessions)),
        )

    async def start(self) -> None:
        self._publishing.start()
        for port in self._ports:
            most = self._settings.connections_max
            door = None if self._make_door is None else self._make_door(port.name, most + EXMP_SURPLUS_MAX)
            listener = Listener(self._settings.of_connection(), self._welcome, most, port.tls, door)
            self._open.append(listener)
            self._listeners.append(port.named(await listener.start(port.host, port.port)))

    async def close(self) -> None:
        await asyncio.gather(*(listener.close() for listener in self._open))
        self._publishing.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _welcome(self, link: ExmpConnection) -> ClientSession:
        return ClientSession(
            link,
            self._mesh,
            self._publishing,
            self._admission,
            self._operations,
            self._tasks,
            self._sessions,
            self._counts,
        )
