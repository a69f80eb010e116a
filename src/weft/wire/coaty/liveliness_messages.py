"""Messages of ``/coaty/liveliness/1.0.0``: last wills and deaths announced, and pings (COA-10).

One JSON object is one frame of the stream, with no length before it, and all of it is ASCII: the reference counts
characters where bytes are meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias, assert_never

from weft.errors import UsageError
from weft.limits import COATY_WILLS_MAX, KIB, MPLEX_MESSAGE_BYTES_MAX
from weft.wire.coaty.errors import BadCoatyMessage, blaming_peer
from weft.wire.coaty.jsonvalues import Json, JsonObject, decode_json_untrusted, encode_json
from weft.wire.coaty.messages import Message
from weft.wire.coaty.names import require_peer_id, require_uuid, shown
from weft.wire.coaty.one_way import Deadvertise

COATY_LIVELINESS_BYTES_MAX: Final = MPLEX_MESSAGE_BYTES_MAX  # one message is one frame
COATY_ANNOUNCE_BYTES_MAX: Final = 256 * KIB  # of last wills in one message we send; more go out in several
COATY_WILL_IDS_MAX: Final = 256  # objects that die with one agent: its identity and its IO nodes
COATY_VISITED_MAX: Final = COATY_WILLS_MAX  # peers that an announcement can have passed
LIVELINESS_PROTOCOL: Final = "/coaty/liveliness/1.0.0"

_ID_BYTES = 39  # a UUID as JSON: 36 characters, quotes, comma


class Operation(IntEnum):
    ANNOUNCE_LAST_WILL = 0
    ANNOUNCE_DEAD = 1
    PING_ALIVE = 2
    PING_ALIVE_ACK = 3


@dataclass(frozen=True, slots=True)
class LastWill:
    """What is to be deadvertised when a peer dies: its agent, and other objects of that agent."""

    peer_id: str
    agent_id: str
    other_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_peer_id(self.peer_id, "peer id of last will")
        if 1 + len(self.other_ids) > COATY_WILL_IDS_MAX:
            raise UsageError("last will names too many objects", limit=COATY_WILL_IDS_MAX)
        for object_id in (self.agent_id, *self.other_ids):
            require_uuid(object_id, "object id of last will")

    def to_event(self) -> Message:
        """The event that the local agent is given in the name of the dead one."""
        return Message(self.agent_id, Deadvertise([self.agent_id, *self.other_ids]))


@dataclass(frozen=True, slots=True)
class AnnounceLastWill:
    """Last wills for peers that do not know them. ``visited`` begins with the peer that announced first."""

    last_wills: tuple[LastWill, ...]
    visited: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_visited(self.visited)
        if len(self.last_wills) > COATY_WILLS_MAX:
            raise UsageError("announcement has too many last wills", limit=COATY_WILLS_MAX)


@dataclass(frozen=True, slots=True)
class AnnounceDead:
    """A peer is dead: the first of those ``visited``."""

    visited: tuple[str, ...]

    def __post_init__(self) -> None:
        _require_visited(self.visited)

    @property
    def dead(self) -> str:
        return self.visited[0]


@dataclass(frozen=True, slots=True)
class PingAlive:
    """Are you there?"""


@dataclass(frozen=True, slots=True)
class PingAliveAck:
    """Yes."""


LivelinessMessage: TypeAlias = AnnounceLastWill | AnnounceDead | PingAlive | PingAliveAck


def encode_liveliness(message: LivelinessMessage) -> bytes:
    """One frame."""
    match message:
        case AnnounceLastWill():
            members: JsonObject = {
                "op": Operation.ANNOUNCE_LAST_WILL,
                "lastWills": [[will.peer_id, will.agent_id, *will.other_ids] for will in message.last_wills],
                "propagatedPeerIds": list(message.visited),
            }
        case AnnounceDead():
            members = {"op": Operation.ANNOUNCE_DEAD, "propagatedPeerIds": list(message.visited)}
        case PingAlive():
            members = {"op": Operation.PING_ALIVE}
        case PingAliveAck():
            members = {"op": Operation.PING_ALIVE_ACK}
        case _:
            assert_never(message)
    frame = encode_json(members, "liveliness message", COATY_LIVELINESS_BYTES_MAX)
    assert frame.isascii(), "peer ids and UUIDs have been checked"
    return frame


def decode_liveliness_untrusted(frame: bytes) -> LivelinessMessage:
    """One frame; raise only BadCoatyMessage."""
    members = decode_json_untrusted(frame, "liveliness message", COATY_LIVELINESS_BYTES_MAX)
    if not isinstance(members, dict):
        raise BadCoatyMessage("liveliness message is not a JSON object", got=shown(members))
    with blaming_peer():
        match members.get("op"):
            case bool():
                pass
            case Operation.ANNOUNCE_LAST_WILL:
                return AnnounceLastWill(_read_wills(members), _read_visited(members))
            case Operation.ANNOUNCE_DEAD:
                return AnnounceDead(_read_visited(members))
            case Operation.PING_ALIVE:
                return PingAlive()
            case Operation.PING_ALIVE_ACK:
                return PingAliveAck()
            case _:
                pass
    raise BadCoatyMessage("liveliness operation is unknown", op=shown(members.get("op")))


def announcements(last_wills: Iterable[LastWill], visited: tuple[str, ...]) -> list[AnnounceLastWill]:
    """Last wills in as many messages as they need to fit into frames."""
    batches: list[list[LastWill]] = []
    room_bytes = 0
    for will in last_wills:
        will_bytes = len(will.peer_id) + _ID_BYTES * (2 + len(will.other_ids))
        if will_bytes > room_bytes:
            batches.append([])
            room_bytes = COATY_ANNOUNCE_BYTES_MAX
        batches[-1].append(will)
        room_bytes -= will_bytes
    return [AnnounceLastWill(tuple(batch), visited) for batch in batches]


def _require_visited(visited: tuple[str, ...]) -> None:
    if not visited:
        raise UsageError("announcement does not name its peer: no peer visited")
    if len(visited) > COATY_VISITED_MAX:
        raise UsageError("announcement has visited too many peers", limit=COATY_VISITED_MAX)
    for peer_id in visited:
        require_peer_id(peer_id, "visited peer")


def _read_visited(members: JsonObject) -> tuple[str, ...]:
    visited = _require_list(members, "propagatedPeerIds")
    if len(visited) >= COATY_VISITED_MAX:  # one place is left for the reader, who passes the message on
        raise UsageError("announcement has visited too many peers", limit=COATY_VISITED_MAX - 1)
    return tuple(visited)


def _read_wills(members: JsonObject) -> tuple[LastWill, ...]:
    """The last wills that are sound. One agent with odd ids must not silence those announced together with it."""
    wills = _require_list(members, "lastWills")
    if len(wills) > COATY_WILLS_MAX:
        raise UsageError("announcement has too many last wills", limit=COATY_WILLS_MAX)
    sound = []
    for will in wills:
        match will:
            case [peer_id, agent_id, *other_ids]:
                try:
                    sound.append(LastWill(peer_id, agent_id, tuple(other_ids)))
                except UsageError:
                    continue
            case _:
                continue
    return tuple(sound)


def _require_list(members: JsonObject, name: str) -> list[Json]:
    value = members.get(name)
    if not isinstance(value, list):
        raise UsageError(f"{name} is no list", got=shown(value))
    return value
