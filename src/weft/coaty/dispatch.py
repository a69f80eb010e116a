"""Hands what arrives on a topic to its observations. A topic stays subscribed to while it has one."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from weft.coaty.observing import Observation
from weft.errors import PeerError
from weft.transport.libp2p import Pubsub
from weft.wire.libp2p.floodsub import Message

T = TypeVar("T")
ObservationT = TypeVar("ObservationT", bound=Observation[Any])
Take = Callable[[str, bytes], None]


class Dispatch:
    """``rejected`` is called for every payload that an observer could not read."""

    def __init__(self, pubsub: Pubsub, rejected: Callable[[PeerError], None]) -> None:
        self._pubsub = pubsub
        self._rejected = rejected
        self._takers: dict[str, dict[int, Take]] = {}
        self._next = 0
        self._observations: weakref.WeakSet[Observation[Any]] = weakref.WeakSet()
        self._paused = False

    def observe(
        self,
        topics: list[str],
        read_untrusted: Callable[[str, bytes], T | None],
        make: Callable[[Callable[[], None], Callable[[], None]], ObservationT],
    ) -> ObservationT:
        """An observation of these topics. ``read_untrusted`` makes of a payload what is observed, None for what is
        not meant, or raises PeerError."""
        leaves: list[Callable[[], None]] = []
        observation = make(lambda: _call_all(leaves), self._room)
        observed = weakref.ref(observation)

        def take(topic: str, payload: bytes) -> None:
            target = observed()
            if target is None:
                return
            item = read_untrusted(topic, payload)
            if item is not None:
                self.put(target, item, len(payload))

        leaves += [self.add(topic, take) for topic in topics]
        self._observations.add(observation)
        return observation

    def add(self, topic: str, take: Take) -> Callable[[], None]:
        """Call ``take`` for everything that arrives on a topic, until the returned function is called."""
        number, self._next = self._next, self._next + 1
        if topic not in self._takers:
            self._pubsub.subscribe(topic)  # which may be one too many: then nothing has changed
        takers = self._takers.setdefault(topic, {})
        takers[number] = take

        def leave() -> None:
            if takers.pop(number, None) is not None and not takers:
                del self._takers[topic]
                self._pubsub.unsubscribe(topic)

        return leave

    def put(self, observation: Observation[T], item: T, size_bytes: int = 0) -> None:
        """Hand it to the observers. While one has too much to read, nothing more is read from neighbours."""
        observation.put(item, size_bytes)
        if observation.is_full and not self._paused:
            self._paused = True
            self._pubsub.pause()

    def received(self, message: Message) -> None:
        for topic in message.topics:
            self.deliver(topic, message.data)

    def deliver(self, topic: str, payload: bytes) -> None:
        for take in list(self._takers.get(topic, {}).values()):
            try:
                take(topic, payload)
            except PeerError as error:
                self._rejected(error)

    def close(self) -> None:
        """Tell observers that nothing more comes."""
        for observation in list(self._observations):
            observation.close()

    def _room(self) -> None:
        if self._paused and not any(observation.is_full for observation in self._observations):
            self._paused = False
            self._pubsub.resume()


def _call_all(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        callback()
