"""What nodes tell each other about a group: events on its topic, compacted by key.

====================  ===============================================  =================================================
key                   payload                                          meaning
====================  ===============================================  =================================================
``n:node-a``          JSON, ``{"billing-1": {"pattern": "plant.>",     all members of the group at this node, and what
                      "turn": 1, "held": ["plant.t@node-b/0:e7"],      they hold, and whose each member is
                      "owner": "1f0c…"}}``
``p:plant.t@b/0:e7``  ``2:1234``                                       the group's position in it: version, offset
``l:plant.t@b/0:e7``  JSON, see ``ledger``                             what is done and what failed behind that
``s:``                JSON, see ``weft.core.policy``                   what becomes of events that fail
``d:``                ``1``                                            the group was dropped: this is its era now
====================  ===============================================  =================================================

Every event is a full statement, never a change to an earlier one, so only the last event of a key counts. A node
without members says ``{}`` instead of writing a tombstone: compaction would delete the tombstone before a node that was
away for days could hear it.

Every statement belongs to an **era** of the group. The first era is 0, and is not written. Each drop begins the next
era, and nodes that hear of the drop forget what was said in earlier eras. For example, ``2:1234:1`` and ``"era": 1``
belong to the second era. A tombstone withdraws what its node said earlier, either because the era is over, or because
the node has forgotten a group that nobody has used for long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import msgspec

from weft.core.groups.ledger import Ledger, read_ledger_untrusted, write_ledger
from weft.core.groups.names import is_member
from weft.core.messages import StreamKey
from weft.core.policy import PolicyAt, policy_at, read_policy_untrusted
from weft.errors import PeerError, UsageError
from weft.limits import MIB, OFFSET_MAX
from weft.model import Event, NodeId, Pattern, parse_node_id, parse_pattern, parse_position
from weft.model.stream import NUMBER, TEXT_CHARACTERS_MAX
from weft.model.topic import OWNER
from weft.routing import Pieces, in_pieces

GROUP_MEMBERS_MAX: Final = 1000  # of one group at one node: each is a connection
GROUP_HELD_MAX: Final = 10_000  # streams of one group at one node: one event lists them
PIECE_STREAMS: Final = 1_000  # how many of these streams are written in one step
GROUP_STATE_BYTES_MAX: Final = 8 * MIB  # of the event that lists them: 800 bytes per stream at worst
GROUP_STREAMS_KEPT_MAX: Final = 65_536  # parsed names of streams that are cached, about 30 MB
NODE: Final = b"n:"
POSITION: Final = b"p:"
LEDGER: Final = b"l:"
POLICY: Final = b"s:"
DROP: Final = b"d:"
PLACE_TEXT: Final = re.compile(rf"{NUMBER}:{NUMBER}(?::{NUMBER})?".encode())
PLACE_BYTES_MAX: Final = 59  # three numbers of 19 digits, and the colons
ERA_TEXT: Final = re.compile(NUMBER.encode())
ERA_BYTES_MAX: Final = 19


class BadGroupEvent(PeerError):
    """An event on a group's topic that no Weft node writes."""


class Place(NamedTuple):
    """A group's position in a stream. Of two places, the greater one counts. ``version`` grows whenever somebody moves
    the group by hand; only then can the offset go back. It is a tuple because it is ordered like one."""

    version: int
    offset: int


class MemberState(NamedTuple):
    """A member, as its node describes it. ``turn``: if two nodes have a member of this name, the one with the higher
    turn counts.

    ``owner``: the client that joined as this member; empty if its node runs an older version, which does not say.
    """

    pattern: Pattern
    turn: int
    held: frozenset[StreamKey]
    owner: str = ""


MembersState: TypeAlias = Mapping[str, MemberState]


class NodeSaid(NamedTuple):
    """What a node says about its members. ``era`` means nothing if there are no members."""

    node: NodeId
    members: MembersState
    era: int = 0


class PlaceSaid(NamedTuple):
    key: StreamKey
    place: Place
    era: int = 0


class DropSaid(NamedTuple):
    """All eras before this one are over."""

    era: int


class LedgerSaid(NamedTuple):
    """``version``: the version of the place to which the ledger belongs."""

    key: StreamKey
    version: int
    ledger: Ledger
    era: int = 0


class PolicySaid(NamedTuple):
    policy: PolicyAt
    era: int = 0


class WithdrawalSaid(NamedTuple):
    """The node withdraws what it said about this."""

    what: Subject


class LedgerOf(NamedTuple):
    """A stream's ledger as the subject of a statement; the stream by itself stands for its position."""

    key: StreamKey


class GroupSubject(Enum):
    """What is said about a group as a whole, by key."""

    DROP = DROP
    POLICY = POLICY


Subject: TypeAlias = NodeId | StreamKey | LedgerOf | GroupSubject  # of a statement; a NodeId: the members of that node
Said: TypeAlias = NodeSaid | PlaceSaid | LedgerSaid | PolicySaid | DropSaid | WithdrawalSaid


class _WireMember(msgspec.Struct, frozen=True, forbid_unknown_fields=False, omit_defaults=True):
    pattern: str
    turn: int
    held: list[str]
    owner: str = ""
    era: int = 0


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(dict[str, _WireMember])


def node_event(node: NodeId, members: MembersState, era: int = 0, timestamp_us: int = 0) -> Pieces[Event]:
    """All that a node says about its members. It is sorted, so that the same members always give the same bytes."""
    wire: dict[str, _WireMember] = {}
    left = PIECE_STREAMS
    for name, state in sorted(members.items()):
        held: list[str] = []
        for some in in_pieces(state.held, PIECE_STREAMS):
            if left < len(some):
                left = PIECE_STREAMS
                yield
            left -= len(some)
            held += sorted(map(text_of, some))
        held.sort()  # the pieces are sorted already, so this takes a tenth of the time
        wire[name] = _WireMember(state.pattern, state.turn, held, state.owner, era)
    if sum(len(each.held) for each in wire.values()) > PIECE_STREAMS:
        yield
    return Event(_ENCODER.encode(wire), timestamp_us, NODE + node.encode())


def place_event(key: StreamKey, place: Place, era: int = 0, timestamp_us: int = 0) -> Event:
    text = b"%d:%d:%d" % (*place, era) if era else b"%d:%d" % place
    return Event(text, timestamp_us, POSITION + text_of(key).encode())


def drop_event(era: int) -> Event:
    return Event(b"%d" % era, 0, DROP)


def withdrawal(what: Subject) -> Event:
    """Make a tombstone."""
    match what:
        case GroupSubject():
            return Event(b"", 0, what.value)
        case LedgerOf(key):
            return Event(b"", 0, LEDGER + text_of(key).encode())
        case str():
            return Event(b"", 0, NODE + what.encode())
        case _:
            return Event(b"", 0, POSITION + text_of(what).encode())


def ledger_event(key: StreamKey, version: int, ledger: Ledger, era: int = 0, timestamp_us: int = 0) -> Event:
    return Event(write_ledger(version, ledger, era), timestamp_us, LEDGER + text_of(key).encode())


def policy_event(policy: PolicyAt, timestamp_us: int = 0) -> Event:
    """Make the event for a policy. The era is in its text."""
    return Event(policy.text, timestamp_us, POLICY)


def text_of(key: StreamKey) -> str:
    """Write a stream and its epoch. The stream is written as ``str(stream)`` would, but faster: a node may have to list
    ten thousand streams."""
    stream, epoch = key
    return f"{stream.topic}@{stream.origin}/{stream.partition}:e{epoch}"


def is_withdrawal(event: Event) -> bool:
    return not event.payload


def read_untrusted(event: Event) -> Said:
    """Read what an event on a group's topic says. Raise only BadGroupEvent, whatever the bytes."""
    what = subject_untrusted(event)
    if is_withdrawal(event):
        return WithdrawalSaid(what)
    try:
        match what:
            case GroupSubject.DROP:
                return DropSaid(_era_untrusted(event.payload))
            case GroupSubject.POLICY:
                policy, version, era = read_policy_untrusted(event.payload)
                return PolicySaid(policy_at(policy, version, era), era)
            case LedgerOf(key):
                return LedgerSaid(key, *read_ledger_untrusted(event.payload))
            case str():
                return NodeSaid(what, *_members_untrusted(event.payload))
            case _:
                return PlaceSaid(what, *_place_untrusted(event.payload))
    except UsageError as error:
        raise BadGroupEvent(f"an event about a group is not what it should be: {error}") from None


def subject_untrusted(event: Event) -> Subject:
    """Read from the key what an event on a group's topic is about. Raise only BadGroupEvent, whatever the bytes."""
    key = event.key or b""
    try:
        if key.startswith(NODE):
            return parse_node_id(key.removeprefix(NODE).decode())
        if key.startswith(POSITION):
            return _key_of(key.removeprefix(POSITION).decode())
        if key.startswith(LEDGER):
            return LedgerOf(_key_of(key.removeprefix(LEDGER).decode()))
        if key in (DROP, POLICY):
            return GroupSubject(key)
    except (UsageError, UnicodeDecodeError) as error:
        raise BadGroupEvent(f"an event about a group is not what it should be: {error}") from None
    raise BadGroupEvent("an event about a group has no key that is known", key=key[:32])


def _members_untrusted(payload: bytes) -> tuple[MembersState, int]:
    if len(payload) > GROUP_STATE_BYTES_MAX:
        raise BadGroupEvent("the state of a group is too large", bytes=len(payload), limit=GROUP_STATE_BYTES_MAX)
    try:
        wire = _DECODER.decode(payload)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadGroupEvent(f"the state of a group is not what it should be: {error}") from None
    if len(wire) > GROUP_MEMBERS_MAX:
        raise BadGroupEvent("too many members at one node", members=len(wire), limit=GROUP_MEMBERS_MAX)
    held = sum(len(each.held) for each in wire.values())
    if held > GROUP_HELD_MAX:
        raise BadGroupEvent("too many streams held at one node", streams=held, limit=GROUP_HELD_MAX)
    eras = {each.era for each in wire.values()} or {0}
    if len(eras) > 1 or not 0 <= min(eras) <= OFFSET_MAX:
        raise BadGroupEvent("the members of a group at one node are of one era", eras=sorted(eras)[:3])
    return {_checked_name(name): _member(each) for name, each in wire.items()}, eras.pop()


def _member(wire: _WireMember) -> MemberState:
    if not 1 <= wire.turn <= OFFSET_MAX:
        raise BadGroupEvent("turns count from 1", turn=wire.turn, limit=OFFSET_MAX)
    if wire.owner and not OWNER.fullmatch(wire.owner):
        raise BadGroupEvent("not the owner of a member", owner=wire.owner[:32])
    return MemberState(parse_pattern(wire.pattern), wire.turn, frozenset(map(_key_of, wire.held)), wire.owner)


def _checked_name(name: str) -> str:
    if not is_member(name):
        raise BadGroupEvent("not the name of a member", name=name[:80])
    return name


@lru_cache(maxsize=GROUP_STREAMS_KEPT_MAX)  # a node lists the same streams whenever one of them changes
def _key_of(text: str) -> StreamKey:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise BadGroupEvent("no stream has so long a name", characters=len(text), limit=TEXT_CHARACTERS_MAX)
    position = parse_position(f"{text}:0")
    return position.stream, position.epoch


def _place_untrusted(payload: bytes) -> tuple[Place, int]:
    found = PLACE_TEXT.fullmatch(payload) if len(payload) <= PLACE_BYTES_MAX else None
    if found is None:
        raise BadGroupEvent(
            "not a position of a group: expected version:offset or version:offset:era", payload=payload[:32]
        )
    place, era = Place(int(found[1]), int(found[2])), int(found[3] or 0)
    if max(*place, era) > OFFSET_MAX:
        raise BadGroupEvent("position of a group out of range", place=(*place, era), limit=OFFSET_MAX)
    return place, era


def _era_untrusted(payload: bytes) -> int:
    found = ERA_TEXT.fullmatch(payload) if len(payload) <= ERA_BYTES_MAX else None
    if found is None or not 1 <= int(found[0]) <= OFFSET_MAX:
        raise BadGroupEvent("not the era of a group: expected a number from 1 on", payload=payload[:32])
    return int(found[0])
