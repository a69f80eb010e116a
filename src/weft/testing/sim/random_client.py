"""A client that does one thing after the other, each at a random node, and does not wait for answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count
from random import Random

from weft.testing.sim.node import SimNode
from weft.testing.sim.schedule import Schedule


class RandomClient(ABC):
    """Calls ``act`` a number of times, with pauses of up to ``pause_s_max``."""

    def __init__(
        self, name: str, schedule: Schedule, chance: Random, nodes: Sequence[SimNode], times: int, pause_s_max: float
    ) -> None:
        self.name = name
        self._schedule = schedule
        self._chance = chance
        self._nodes = nodes
        self._left = times
        self._pause_s_max = pause_s_max
        self._numbers = count(1)

    @property
    def done(self) -> bool:
        return not self._left

    def run(self) -> None:
        running = [node for node in self._nodes if node.takes_clients]
        if running:
            self._left -= 1
            self.act(self._chance.choice(running))
        if self._left:
            self._schedule.at(self._chance.random() * self._pause_s_max, self.run)

    @abstractmethod
    def act(self, node: SimNode) -> None: ...
