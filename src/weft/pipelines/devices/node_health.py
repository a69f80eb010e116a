"""Whether a device is alive, judged by its heartbeats: pure decisions about one node, in time order.

A node's signals come in any order, several times, and by several ways. So a signal is not acted upon when it arrives.
It waits until the watermark, the time before which no more signals are expected, has passed it (``arrive``,
``advance``). So decisions depend only on the set of signals, not on their order or on the steps in which time moved on.

A node is alive when something is heard from it, and late when nothing has come for some of its intervals. It is gone
after some more intervals, or when somebody says that it has left, and it is forgotten some time after that. Agents of
Coaty send no heartbeats: they are alive until they are deadvertised.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, replace

from weft.limits import HEALTH_INTERVAL_S_MAX

HEALTH_WAITING_MAX: Final = 1024  # waiting signals of one node: 17 a second for a minute
US: Final = 1_000_000


class Protocol(StrEnum):
    EMM = "emm"
    EMM_COMPACT = "emm-c"
    COATY = "coaty"


class Kind(StrEnum):
    HELLO = "hello"
    HEARTBEAT = "heartbeat"
    BYE = "bye"  # somebody says that the node is gone: a last will, or the node itself


class Status(StrEnum):
    ALIVE = "alive"
    LATE = "late"
    GONE = "gone"


class AlertKind(StrEnum):
    GONE = "gone"  # nothing came for too long, or a bye came
    BACK = "back"  # heard of again after that
    GAP = "gap"  # heard of again after being late
    RESTARTED = "restarted"  # its uptime began at 0 again, with or without a gap


class Rules(Struct, frozen=True):
    """How long a node may be silent, in its own intervals."""

    interval_s: float  # of nodes that do not say their own
    late_intervals: float
    gone_intervals: float
    forget_s: float  # a node that was gone for longer counts as new when it comes back
    beats: bool = True  # False: these nodes send no heartbeats, so silence says nothing

    def of(self, protocol: Protocol) -> Rules:
        """The rules for a protocol. Agents of Coaty send no heartbeats: a last will says when they are gone."""
        return replace(self, beats=protocol is not Protocol.COATY)


class Signal(Struct, frozen=True, array_like=True):
    """One sign of life or death. A Struct, because it is kept as bytes in Spark's state.

    ``at_us`` is when it was received, or the best approximation of that. ``message`` is the same for all copies of one
    packet, and different for other packets.
    """

    at_us: int
    message: str
    kind: Kind
    interval_s: float | None = None  # between its heartbeats, if the node says
    uptime_s: int | None = None  # of the node, if it says
    hops: int | None = None  # from the node to the receiver
    delay_us: int | None = None  # from the node's clock to the receiver's


class Node(Struct, frozen=True):
    """What is known of a node."""

    status: Status
    since_us: int  # when it got that status
    first_us: int  # when it was heard of for the first time
    last_us: int  # ... and for the last
    up_since_us: int  # when it started, as it says or as its signals show
    message: str
    interval_s: float | None = None
    hops: int | None = None
    delay_us: int | None = None
    delay_us_max: int | None = None
    signals: int = 0
    gaps: int = 0
    missed: int = 0  # heartbeats, in all gaps
    outages: int = 0  # times it was gone
    restarts: int = 0


class Alert(Struct, frozen=True):
    """Something that a person may want to know."""

    kind: AlertKind
    at_us: int
    last_us: int  # when the node was last heard of before the alert
    missed: int = 0  # heartbeats since


class Known(Struct, frozen=True):
    """All that is kept for one node: its state, until when that is decided, and waiting signals, oldest first."""

    node: Node | None = None
    waiting: tuple[Signal, ...] = ()
    decided_us: int = -1

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing worth keeping."""
        return self.node is None and not self.waiting


_KNOWN: Final = msgspec.msgpack.Decoder(Known)


def encode_known(known: Known) -> bytes:
    return msgspec.msgpack.encode(known)


def decode_known(data: bytes) -> Known:
    return _KNOWN.decode(data)


def in_order(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """The signals in time order, without repeats."""
    return tuple(sorted(set(signals), key=_order))


def arrive(known: Known, signals: Iterable[Signal]) -> Known:
    """Add signals to those that wait. Drop a signal if its time was already decided: it comes too late."""
    timely = (signal for signal in signals if signal.at_us > known.decided_us)
    waiting = in_order((*known.waiting, *timely))
    while len(waiting) > HEALTH_WAITING_MAX:  # a flood: every second signal says just as much
        waiting = (*waiting[:-1:2], waiting[-1])
    return replace(known, waiting=waiting)


def advance(known: Known, until_us: int, rules: Rules) -> tuple[Known, list[Alert]]:
    """Move time on to ``until_us``. Return what is then known of the node, and the alerts, in order."""
    node, alerts = known.node, list[Alert]()
    due = [signal for signal in known.waiting if signal.at_us <= until_us]
    for signal in due:
        node = _silent(node, signal.at_us - 1, rules, alerts)
        node = _heard(node, signal, rules, alerts)
    node = _silent(node, until_us, rules, alerts)
    return Known(node, known.waiting[len(due) :], max(until_us, known.decided_us)), alerts


def next_us(known: Known, rules: Rules) -> int | None:
    """When the next decision is due if nothing else comes before."""
    times = [signal.at_us for signal in known.waiting[:1]]
    if known.node is not None and (deadline_us := _deadline_us(known.node, rules)) is not None:
        times.append(deadline_us)
    return min(times, default=None)


def _order(signal: Signal) -> tuple[object, ...]:
    return tuple(-1 if value is None else value for value in astuple(signal))


def _silent(node: Node | None, until_us: int, rules: Rules, alerts: list[Alert]) -> Node | None:
    """The node after silence up to ``until_us``."""
    while node is not None and (at_us := _deadline_us(node, rules)) is not None and at_us <= until_us:
        match node.status:
            case Status.ALIVE:
                node = replace(node, status=Status.LATE, since_us=at_us)
            case Status.LATE:
                alerts.append(Alert(AlertKind.GONE, at_us, node.last_us, _missed(node, at_us, rules)))
                node = replace(node, status=Status.GONE, since_us=at_us, outages=node.outages + 1)
            case Status.GONE:
                node = None
            case _:
                assert_never(node.status)
    return node


def _deadline_us(node: Node, rules: Rules) -> int | None:
    """When continued silence will change the node's status."""
    match node.status:
        case Status.GONE:
            return node.since_us + round(rules.forget_s * US)
        case Status.ALIVE | Status.LATE if not rules.beats:
            return None
        case Status.ALIVE:
            return node.last_us + round(rules.late_intervals * _interval_s(node, rules) * US)
        case Status.LATE:
            return node.last_us + round(rules.gone_intervals * _interval_s(node, rules) * US)
        case _:
            assert_never(node.status)


def _interval_s(node: Node, rules: Rules) -> float:
    return node.interval_s or rules.interval_s


def _missed(node: Node, at_us: int, rules: Rules) -> int:
    """How many heartbeats should have come between the last one and ``at_us``; one at ``at_us`` does not count."""
    if not rules.beats:
        return 0
    return max(round((at_us - node.last_us) / (_interval_s(node, rules) * US)) - 1, 0)


def _heard(node: Node | None, signal: Signal, rules: Rules, alerts: list[Alert]) -> Node | None:
    if signal.kind is Kind.BYE:
        return _left(node, signal, alerts)
    started_us = None if signal.uptime_s is None else signal.at_us - signal.uptime_s * US
    if node is None:
        node = Node(
            status=Status.ALIVE,
            since_us=signal.at_us,
            first_us=signal.at_us,
            last_us=signal.at_us,
            up_since_us=signal.at_us if started_us is None else started_us,
            message=signal.message,
        )
    elif signal.message == node.message:
        return node  # a copy of the same packet that came by another way
    else:
        node = _alive(node, signal.at_us, started_us, rules, alerts)
    delays_us = [delay_us for delay_us in (node.delay_us_max, signal.delay_us) if delay_us is not None]
    return replace(
        node,
        last_us=signal.at_us,
        message=signal.message,
        interval_s=_sane_interval_s(signal.interval_s) or node.interval_s,
        hops=node.hops if signal.hops is None else signal.hops,
        delay_us=node.delay_us if signal.delay_us is None else signal.delay_us,
        delay_us_max=max(delays_us, default=None),
        signals=node.signals + 1,
    )


def _alive(node: Node, at_us: int, started_us: int | None, rules: Rules, alerts: list[Alert]) -> Node:
    """The node is alive now, whatever it was before; add alerts about what changed. ``started_us`` is when it started,
    by its own uptime."""
    missed = _missed(node, at_us, rules)
    back = Alert(AlertKind.BACK, at_us, node.last_us, missed)
    match node.status:
        case Status.ALIVE:
            pass
        case Status.LATE:
            alerts.append(replace(back, kind=AlertKind.GAP))
            node = replace(node, status=Status.ALIVE, since_us=at_us, gaps=node.gaps + 1, missed=node.missed + missed)
        case Status.GONE:
            alerts.append(back)
            node = replace(node, status=Status.ALIVE, since_us=at_us, missed=node.missed + missed)
            if started_us is None:
                node = replace(node, up_since_us=at_us)  # as far as anybody can tell
        case _:
            assert_never(node.status)
    # Uptimes are whole seconds, and packets take time: a start that moved by less than an interval is the same start.
    if started_us is not None and started_us > node.up_since_us + max(_interval_s(node, rules), 2) * US:
        alerts.append(replace(back, kind=AlertKind.RESTARTED))
        return replace(node, up_since_us=started_us, restarts=node.restarts + 1)
    if started_us is not None and started_us < node.up_since_us:
        return replace(node, up_since_us=started_us)  # it started before it was heard of, or this packet was faster
    return node


def _left(node: Node | None, signal: Signal, alerts: list[Alert]) -> Node | None:
    if node is None or node.status is Status.GONE:
        return node  # the node is unknown, or already gone
    alerts.append(Alert(AlertKind.GONE, signal.at_us, node.last_us))
    return replace(node, status=Status.GONE, since_us=signal.at_us, message=signal.message, outages=node.outages + 1)


def _sane_interval_s(interval_s: float | None) -> float | None:
    """The interval that a node claims, if it is plausible: 0 means nothing, and nobody waits for days."""
    return interval_s if interval_s is not None and 0 < interval_s <= HEALTH_INTERVAL_S_MAX else None
