"""Drives the two state machines of a node, Members and Broker, on the event loop: inputs in, effects performed.

An effect may cause another input (the broker is told of a member that changed, and membership of the broker's
interest). That input waits in line until the current step is done, so neither machine is ever entered twice.

Both machines use the clock they are given, and not the loop's: uvloop's stands still while a callback runs. A
simulation passes its own clock, and its own loop for the timers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, assert_never

from weft import membership
from weft.core import Broker
from weft.core import call_messages as calls
from weft.core import messages as core
from weft.errors import StorageError
from weft.membership import Members
from weft.model import NodeId

MemberNews = (
    membership.MemberChanged
    | membership.MemberForgotten
    | membership.HealthChanged
    | membership.RoundTrip
    | membership.GossipRefused
)
News = MemberNews | core.EventsGone | core.PeerRefused


class Links(Protocol):
    """What the engine needs of the links to peers."""

    def send(self, effect: core.PeerEffect) -> None: ...

    def send_member(self, peer: NodeId, message: membership.Message) -> None: ...

    def dial(self, address: str) -> None: ...

    def disconnect(self, peer: NodeId, reason: str) -> None: ...


class StepWatch(Protocol):
    """Sees every step of the broker, after its effects were performed; times in nanoseconds since 1970."""

    def now_ns(self) -> int: ...

    def stepped(self, event: core.Input, effects: Sequence[core.Effect], began_ns: int, decided_ns: int) -> None: ...


class Engine:
    """``serve`` performs effects for clients, and ``call`` those for clients that ask and serve. ``news`` gets what was
    found out about other nodes. ``kick`` makes the log sync. ``damaged`` gets the error if peers should get events that
    the log has lost. ``buckets_found`` is called when there are buckets of keys and values to follow.

    An error in a step ends the engine: ``failed`` is called once, and no further step is made. ``now_s`` is a monotonic
    clock. ``watch`` is for traces; None: there are none, and they cost nothing.
    """

    def __init__(
        self,
        broker: Broker,
        members: Members,
        serve: Callable[[core.ClientEffect], None],
        call: Callable[[calls.CallEffect], None],
        news: Callable[[News], None],
        kick: Callable[[], None],
        damaged: Callable[[StorageError], None],
        failed: Callable[[StorageError], None],
        buckets_found: Callable[[], None],
        now_s: Callable[[], float],
        watch: StepWatch | None = None,
    ) -> None:
        self.broker = broker
        self.members = members
        self.links: Links  # set before start: links in turn need the engine
        self._serve = serve
        self._call = call
        self._news = news
        self._kick = kick
        self._damaged = damaged
        self._failed = failed
        self._buckets_found = buckets_found
        self._now_s = now_s
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._line: deque[tuple[Callable[[Any], None], core.Input | membership.Input | None]] = deque()
        self.left = asyncio.Event()  # set once the goodbye was sent, or nothing is sent any longer
        self._stepping = False
        self._over = False
        self._has_stepped = False  # since the alarm was set
        self._members_due_s: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at_s = 0.0

    def start(self) -> None:
        self._perform(self.broker.start(self._now_s()))
        self.feed_member(membership.Start())

    def finish(self) -> None:
        """Call this before ``stop``: members leave their groups, and the mesh is told the groups' positions."""
        self._line.append((self._close_groups, None))
        self._run()

    def stop(self) -> None:
        self._over = True
        self.left.set()
        if self._alarm is not None:
            self._alarm.cancel()

    def feed(self, event: core.Input) -> None:
        """Step the broker with this input, and with everything it leads to."""
        self._line.append((self._step_broker, event))
        self._run()

    def feed_member(self, event: membership.Input) -> None:
        """Do the same for membership."""
        self._line.append((self._step_members, event))
        self._run()

    def _run(self) -> None:
        if self._stepping or self._over:
            return
        self._stepping = True
        try:
            while self._line:
                step, event = self._line.popleft()
                step(event)
        except StorageError as error:
            self._fail(error)
        except Exception as error:  # a bug: the node must not go on with half a step done
            failure = StorageError(f"a step failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._fail(failure)
        finally:
            self._stepping = False
        if not self._over:
            self._kick()  # may sync at once, and feed the result: then that step has set the alarm already
            if self._has_stepped:
                self._set_alarm()

    def _fail(self, error: StorageError) -> None:
        self.stop()
        self._line.clear()
        self._failed(error)

    # --- time ----------------------------------------------------------------------------------------------------

    def _set_alarm(self) -> None:
        """Set the one timer for both machines. A timer that is too early does no harm, so it is never set to later."""
        self._has_stepped = False
        due_s, members_due_s = self.broker.get_timer(), self._members_due_s
        if due_s is None or (members_due_s is not None and members_due_s < due_s):
            due_s = members_due_s
        if due_s is None or (self._alarm is not None and self._alarm_at_s <= due_s):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at_s = due_s
        self._alarm = self._loop.call_later(max(due_s - self._now_s(), 0.0), self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        now_s = self._now_s()
        if _is_due(self._members_due_s, now_s):
            self.feed_member(membership.Tick())
        if _is_due(self.broker.get_timer(), now_s):
            self.feed(core.Tick())
        if not self._over:
            self._set_alarm()

    # --- steps and their effects ---------------------------------------------------------------------------------

    def _step_broker(self, event: core.Input) -> None:
        self._has_stepped = True
        watch = self._watch
        if watch is None:
            self._perform(self.broker.step(event, self._now_s()))
            return
        began_ns = watch.now_ns()
        effects = self.broker.step(event, self._now_s())
        decided_ns = watch.now_ns()
        self._perform(effects)
        watch.stepped(event, effects, began_ns, decided_ns)

    def _close_groups(self, _: None) -> None:
        self._perform(self.broker.group_work.close(self._now_s()))

    def _perform(self, effects: Iterable[core.Effect]) -> None:
        for effect in effects:
            kind = type(effect)
            if kind is core.Deliver or kind is core.Receipts:  # nearly all of them; the others are tested in turn
                self._serve(effect)  # type: ignore[arg-type]
                continue
            if isinstance(effect, core.PeerEffect):
                self.links.send(effect)
                continue
            match effect:
                case calls.Replied() | calls.CallFailed() | calls.Handed() | calls.HandedOver() | calls.HandedTook():
                    self._call(effect)
                case core.TellInterest(patterns, capped, summary, since_us):
                    self.feed_member(membership.SetInterest(patterns, capped, summary, since_us))
                case core.DropLink(peer, reason):
                    self.links.disconnect(peer, reason)
                case core.DamageFound(error):
                    self._damaged(error)
                case core.EventsGone() | core.PeerRefused():
                    self._news(effect)
                case core.BucketsFound():
                    self._buckets_found()
                case _:
                    self._serve(effect)

    def _step_members(self, event: membership.Input) -> None:
        self._has_stepped = True
        effects = self.members.step(event, self._now_s())
        self._members_due_s = self.members.get_timer()
        for effect in effects:
            match effect:
                case membership.Send(peer, message):
                    self.links.send_member(peer, message)
                case membership.Dial(address):
                    self.links.dial(address)
                case membership.MemberChanged(_, after):
                    if not (after.node_id == self.broker.me and after.liveness.gone):
                        self.feed(core.MemberKnown(after))  # a leaving node still hands out what it owes
                    self._news(effect)
                case membership.MemberForgotten(node_id):
                    self.feed(core.MemberForgotten(node_id))
                    self._news(effect)
                case membership.HealthChanged(peer, _, health):
                    self._news(effect)
                    if health is membership.Health.UNHEALTHY and peer not in self.broker.replication.plain:
                        self.links.disconnect(peer, "its heartbeats were missed")  # PL-03; it is dialled again
                case membership.RoundTrip() | membership.GossipRefused():
                    self._news(effect)
                case membership.Stopped():
                    self.left.set()
                case _:
                    assert_never(effect)


def _is_due(due_s: float | None, now_s: float) -> bool:
    return due_s is not None and due_s <= now_s
