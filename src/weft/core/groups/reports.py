"""What the other nodes said about their members of a group. What counts of it is what living nodes said.

A node that is called dead is remembered: it may have been cut off only, and does not say again what it said before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from weft.core.groups.events import MembersState
from weft.core.messages import StreamKey
from weft.limits import MEMBERS_MAX
from weft.model import Epoch, NodeId


class Report(NamedTuple):
    """The number of an event in its node's log is also that of the statement: later ones replace earlier ones."""

    epoch: Epoch
    offset: int
    members: MembersState


class Reports:
    """``lives``: in which epoch each living node has its log. What it said in an earlier one has gone with its disk."""

    def __init__(self, lives: Mapping[NodeId, Epoch]) -> None:
        self._lives = lives
        self._reports: dict[NodeId, Report] = {}
        self._holders: dict[StreamKey, dict[NodeId, str]] = {}

    def __contains__(self, node: NodeId) -> bool:
        return node in self._reports

    def has_room_for(self, node: NodeId) -> bool:
        return node in self._reports or len(self._reports) < MEMBERS_MAX

    def hear(self, node: NodeId, report: Report) -> bool:
        """Whether that is new."""
        known = self._reports.get(node)
        if known is not None:
            if report[:2] <= known[:2]:
                return False  # again, or late
            self._index(node, known, held=False)
        self._reports[node] = report
        self._index(node, report, held=True)
        return True

    def clear(self) -> None:
        """What was said of members counts no more; what is said later does."""
        self._reports = {node: report._replace(members={}) for node, report in self._reports.items()}
        self._holders.clear()

    @property
    def has_members(self) -> bool:
        """Whether a living node has members."""
        return any(members for _, members in self.live())

    def live(self) -> Iterator[tuple[NodeId, MembersState]]:
        return ((node, report.members) for node, report in self._reports.items() if self._counts(node))

    def holders(self, key: StreamKey) -> list[tuple[NodeId, str]]:
        """Members at other nodes that hold a stream, or want to and say so."""
        if key not in self._holders:
            return []
        return [(node, name) for node, name in self._holders[key].items() if self._counts(node)]

    def turn(self, name: str) -> int:
        """The highest turn that a member of this name had anywhere, living or not."""
        states = (report.members.get(name) for report in self._reports.values())
        return max((state.turn for state in states if state), default=0)

    def owners(self, name: str) -> set[str]:
        """Whose the members of this name are at other nodes."""
        return {members[name].owner for _, members in self.live() if name in members}

    def _counts(self, node: NodeId) -> bool:
        return self._lives.get(node) == self._reports[node].epoch

    def _index(self, node: NodeId, report: Report, *, held: bool) -> None:
        for name, member in report.members.items():
            for key in member.held:
                if held:
                    self._holders.setdefault(key, {})[node] = name
                elif nodes := self._holders.get(key):  # gone already if two members were said to hold it
                    nodes.pop(node, None)
                    if not nodes:
                        del self._holders[key]
