"""``[gateway.coaty]``: a namespace of Coaty agents that the node joins."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, InstanceOf, model_validator

from weft.configuration import Section
from weft.errors import UsageError
from weft.gateway.coaty.settings import COATY_LEARNED_MAX, ISLAND_CHARS_MAX, CoatySettings
from weft.gateway.coaty.topics import bridges_topic, objects_topic
from weft.limits import LIBP2P_CONNECTIONS_MAX
from weft.model import Topic
from weft.node.config.sections import Int, knob, parsed_by, split_list
from weft.transport.addresses import Address, parse_address
from weft.wire.coaty import require_namespace
from weft.wire.coaty.topics import require_filter, require_raw_topic
from weft.wire.libp2p import multiaddr

IDENTITY: Final = Path("coaty") / "identity.json"  # below the data directory
NAMES_MAX: Final = 1024
TOPICS_MAX: Final = 2500  # of the 4,096 that a peer of Floodsub may have; the rest is for questions
PEERS_MAX: Final = 64
INTERFACES_MAX: Final = 16


def _namespace(text: str) -> str:
    require_namespace(text)
    objects_topic(text)  # which has to be possible on the mesh
    return text


def _filter(text: str) -> str:
    require_filter(text, "name")
    return text


def _raw_topic(text: str) -> str:
    require_raw_topic(text)
    return text


def _agent(text: str) -> str:
    if multiaddr.parse(text).peer is None:
        raise UsageError("an agent's address ends with its peer id: /ip4/127.0.0.1/tcp/4001/p2p/PEER")
    return text


def _interface(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise UsageError("an interface has to be given as its IPv4 address") from None


Names = Annotated[tuple[Annotated[str, parsed_by(_filter)], ...], BeforeValidator(split_list)]
RawTopics = Annotated[tuple[Annotated[str, parsed_by(_raw_topic)], ...], BeforeValidator(split_list)]
Agents = Annotated[tuple[Annotated[str, parsed_by(_agent)], ...], BeforeValidator(split_list)]
Interfaces = Annotated[tuple[Annotated[str, parsed_by(_interface)], ...], BeforeValidator(split_list)]


class CoatySection(Section):
    """A namespace of Coaty agents that this node joins as an agent ([more](coaty.md))."""

    namespace: Annotated[str, parsed_by(_namespace)] | None = Field(
        default=None, description="The namespace. Unset: none is joined."
    )
    listen: Annotated[InstanceOf[Address], parsed_by(parse_address)] = Field(
        default=Address("127.0.0.1", 0),
        description="The TCP address at which agents reach this node. Port 0 takes a free port.",
    )
    bootstrap: Agents = Field(
        default=(), max_length=PEERS_MAX, description="Agents to connect to: /ip4/HOST/tcp/PORT/p2p/PEER."
    )
    mdns: Interfaces = Field(
        default=(),
        max_length=INTERFACES_MAX,
        description="IPv4 addresses of the interfaces on which to look for agents by multicast. Unset: none.",
    )
    channels: Names = Field(
        default=(),
        max_length=NAMES_MAX,
        description="Channels whose events come to the mesh even if no agent observes them. Channels that agents "
        "observe are learned. The next three settings work the same way.",
    )
    operations: Names = Field(
        default=(), max_length=NAMES_MAX, description="Operations whose calls come to the mesh and are answered there."
    )
    io_contexts: Names = Field(
        default=(), max_length=NAMES_MAX, description="IO contexts whose associations come to the mesh."
    )
    raw_topics: RawTopics = Field(
        default=(), max_length=NAMES_MAX, description="Topics of Raw events, and external IO routes."
    )
    learned_max: Int = knob(
        COATY_LEARNED_MAX,
        0,
        TOPICS_MAX,
        "How many topics are learned. Beyond that, a line in the log says which are not.",
    )
    connections_max: Int = knob(
        LIBP2P_CONNECTIONS_MAX,
        1,
        100_000,
        "Connections with agents that are open at a time. Others are closed, with a line in the log.",
    )
    island: str = Field(
        default="",
        max_length=ISLAND_CHARS_MAX,
        description="A name for the part of the namespace that this node's agents can reach without the mesh. "
        "Bridges with the same name share the work. Unset: bridges find out by themselves which of them can reach the "
        "same agents.",
    )
    name: str = Field(default="weft", min_length=1, max_length=256, description="The name of this node's agent.")

    @model_validator(mode="after")
    def _topics_fit(self) -> Self:
        named = len(self.channels) + len(self.operations) + len(self.io_contexts) + len(self.raw_topics)
        if named + self.learned_max > TOPICS_MAX:
            raise ValueError(
                f"channels, operations, io_contexts, raw_topics ({named}) and learned_max ({self.learned_max}) are "
                f"more than {TOPICS_MAX} together, the most that a peer of Floodsub can listen to"
            )
        return self

    @property
    def compacted(self) -> tuple[Topic, ...]:
        """Topics that hold the state of something. They are always compacted, whatever the configuration says."""
        return () if self.namespace is None else (objects_topic(self.namespace), bridges_topic(self.namespace))

    def settings(self, data: Path) -> CoatySettings | None:
        if self.namespace is None:
            return None
        return CoatySettings(
            namespace=self.namespace,
            identity=data / IDENTITY,
            listen=(self.listen.host, self.listen.port),
            bootstrap=self.bootstrap,
            mdns=self.mdns,
            channels=self.channels,
            operations=self.operations,
            io_contexts=self.io_contexts,
            raw_topics=self.raw_topics,
            learned_max=self.learned_max,
            connections_max=self.connections_max,
            island=self.island,
            name=self.name,
        )
