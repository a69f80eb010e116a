"""What the nodes of a mesh have of the streams that a job reads: what each said, and who did not answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.client import Member, NodePositions
from weft.errors import WeftError
from weft.spark.holdings import Holdings, union

SHOWN_MAX: Final = 10  # nodes or streams in one message


@dataclass(frozen=True, slots=True)
class Survey:
    """What the nodes that answered have together, and who did not answer. Nodes are known by address and by id."""

    answers: Mapping[str, NodePositions]  # by address
    silent: Mapping[str, WeftError]  # by address: those that were asked, and why they did not answer
    held: Holdings = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", union({address: each.streams for address, each in self.answers.items()}))

    @property
    def answered(self) -> frozenset[str]:
        """The ids of the nodes that answered."""
        return frozenset(each.node_id for each in self.answers.values())

    @property
    def history_problems(self) -> list[str]:
        """Why some or all archive tables were not asked."""
        found = [(each.node_id, each.history_problem) for each in self.answers.values()]
        return [f"node {node}: {problem}" for node, problem in found if problem]

    def missing_members(self) -> dict[str, Member]:
        """The members of the mesh that have not answered, by id, according to the nodes that have."""
        answered = self.answered
        told = (member for each in self.answers.values() for member in each.members)
        return {member.node_id: member for member in told if member.node_id not in answered}

    def unread(self) -> list[Unread]:
        """Nodes that were asked and did not answer, and members that were never asked."""
        members = self.missing_members()
        ids = {address: member.node_id for member in members.values() for address in member.addresses}
        found = [
            Unread(ids.get(address), address, f"cannot be asked: {error}") for address, error in self.silent.items()
        ]
        named = {each.node for each in found}
        return found + [
            Unread(node, ", ".join(member.addresses), "was not asked")
            for node, member in sorted(members.items())
            if node not in named
        ]


@dataclass(frozen=True, slots=True)
class Unread:
    """A node whose events are not read, or only some of them."""

    node: str | None  # None: it never said its id, and no member of the mesh has that address
    address: str  # empty: not known
    why: str

    @property
    def name(self) -> str:
        return f"{self.node} ({self.address})" if self.node and self.address else self.node or self.address

    def __str__(self) -> str:
        return f"{self.name} {self.why}"


def listed(names: Sequence[str]) -> str:
    """The first few, and how many more."""
    more = len(names) - SHOWN_MAX
    return "; ".join(names[:SHOWN_MAX]) + (f"; and {more} more" if more > 0 else "")
