"""What the other nodes said about their members of a group. Only what living nodes said counts.

What a dead node said is remembered: the node may only have been cut off, and then it does not repeat it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from weft.core.groups.events import MembersState
from weft.core.messages import StreamKey
from weft.limits import MEMBERS_MAX
from weft.model import Epoch, NodeId


class Report(NamedTuple):
    """``number``: the offset of the event in its node's stream. It orders the statements: later ones replace earlier
    ones."""

    epoch: Epoch
    offset: int
    members: MembersState


class Reports:
    """``lives``: the epoch of each living node's log. What a node said in an earlier epoch was lost with its disk."""

    def __init__(self, lives: Mapping[NodeId, Epoch]) -> None:
        self._lives = lives
        self._reports: dict[NodeId, Report] = {}
        self._holders: dict[StreamKey, dict[NodeId, str]] = {}

    def __contains__(self, node: NodeId) -> bool:
        return node in self._reports

    def has_room_for(self, node: NodeId) -> bool:
        return node in self._reports or len(self._reports) < MEMBERS_MAX

    def hear(self, node: NodeId, report: Report) -> bool:
        """Take a report; return whether it is new."""
        known = self._reports.get(node)
        if known is not None:
            if report[:2] <= known[:2]:
                return False  # repeated, or late
            self._index(node, known, held=False)
        self._reports[node] = report
        self._index(node, report, held=True)
        return True

    def clear(self) -> None:
        """Forget the members of all other nodes. Reports that come later count again."""
        self._reports = {node: report._replace(members={}) for node, report in self._reports.items()}
        self._holders.clear()

    @property
    def has_members(self) -> bool:
        """Whether a living node has members."""
        return any(members for _, members in self.live())

    def live(self) -> Iterator[tuple[NodeId, MembersState]]:
        return ((node, report.members) for node, report in self._reports.items() if self._counts(node))

    def holders(self, key: StreamKey) -> list[tuple[NodeId, str]]:
        """The members at other nodes that hold a stream, or say that they want to."""
        if key not in self._holders:
            return []
        return [(node, name) for node, name in self._holders[key].items() if self._counts(node)]

    def turn(self, name: str) -> int:
        """The highest turn that a member of this name had anywhere, alive or not."""
        states = (report.members.get(name) for report in self._reports.values())
        return max((state.turn for state in states if state), default=0)

    def owners(self, name: str) -> set[str]:
        """The owners of the members of this name at other nodes."""
        return {members[name].owner for _, members in self.live() if name in members}

    def _counts(self, node: NodeId) -> bool:
        return self._lives.get(node) == self._reports[node].epoch

    def _index(self, node: NodeId, report: Report, *, held: bool) -> None:
        for name, member in report.members.items():
            for key in member.held:
                if held:
                    self._holders.setdefault(key, {})[node] = name
                elif nodes := self._holders.get(key):  # absent if two members claimed it: the first one removed it
                    nodes.pop(node, None)
                    if not nodes:
                        del self._holders[key]
