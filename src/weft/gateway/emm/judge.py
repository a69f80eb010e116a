"""EMM datagrams of a gateway: judged by ``wire.emm``, in columns or, if they are few, one by one; then turned into
events.

Columns cost a millisecond however few rows they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from weft.gateway.emm.accepting import Acceptance, Taken
from weft.gateway.emm.names import NameRights
from weft.gateway.emm.rows import Arrived, Judged, Rejected, rejected
from weft.wire.emm import Judge, Packet, Terms, TrustStore
from weft.wire.emm.judge import Admitted
from weft.wire.emm.judge_columns import ColumnJudge, JudgedRows, SignatureCheck
from weft.wire.emm.seal import KeyFinder, no_keys
from weft.wire.reject import BadPacket
from weft.wire.seen import Seen

FEW_MAX: Final = 48  # up to this many, one by one is faster


class EmmJudge:
    """``sort_out`` decides everything except signatures, which cost fifty times as much as the rest: ``verify`` checks
    those, as many at a time as its caller allows."""

    def __init__(
        self,
        trust: TrustStore,
        seen: Seen,
        acceptance: Acceptance,
        check_signatures: SignatureCheck,
        terms: Terms,
        names: NameRights,
        find_key: KeyFinder = no_keys,
        *,
        few_max: int = FEW_MAX,
    ) -> None:
        self._few = Judge(trust, terms, marks=seen, find_key=find_key)
        self._many = ColumnJudge(trust, terms, seen=seen, find_key=find_key, check_signatures=check_signatures)
        self._acceptance = acceptance
        self._names = names
        self._few_max = few_max

    def trust_changed(self) -> None:
        """Ask the trust store again for every key."""
        self._many.trust_changed()

    def sort_out(self, arrived: Sequence[Arrived], unix_s: float) -> Judged:
        """Judge each datagram; raise nothing, whatever the bytes."""
        if len(arrived) <= self._few_max:
            return self._one_by_one(arrived, unix_s, self._few.sift)
        return self._in_columns(arrived, unix_s, self._many.sift)

    def verify(self, waiting: Sequence[Arrived], unix_s: float) -> Judged:
        """Check the signatures of what ``sort_out`` left waiting."""
        if len(waiting) <= self._few_max:
            return self._one_by_one(waiting, unix_s, self._few.verify)
        return self._in_columns(waiting, unix_s, self._many.verify)

    def _one_by_one(
        self,
        arrived: Sequence[Arrived],
        unix_s: float,
        look: Callable[[Packet, bytes, float], Admitted | None],
    ) -> Judged:
        taken: list[Taken] = []
        refused: list[Rejected] = []
        waiting: list[Arrived] = []
        for each in arrived:
            try:
                admitted = look(self._few.parse(each.data), each.source.encode(), unix_s)
                if admitted is None:
                    waiting.append(each)
                else:
                    received = self._few.open(admitted)
                    self._names.check(received.packet)
                    taken.append(Taken(each, *received))
            except BadPacket as error:
                refused.append(Rejected(each.data, each.source, error.reason))
        return Judged(self._acceptance.of_packets(taken, unix_s), tuple(refused), tuple(waiting))

    def _in_columns(
        self,
        arrived: Sequence[Arrived],
        unix_s: float,
        look: Callable[[pa.BinaryArray, pa.StringArray, float], JudgedRows],
    ) -> Judged:
        datagrams = pa.array([each.data for each in arrived], pa.binary())
        rows = look(datagrams, pa.array([each.source for each in arrived], pa.string()), unix_s)
        self._many.open(rows)
        self._names.refuse(rows)
        waiting = [each for each, waits in zip(arrived, rows.waiting.tolist(), strict=True) if waits]
        accepted = self._acceptance.of_columns(rows, datagrams, unix_s)
        return Judged(accepted, rejected(arrived, rows.codes), tuple(waiting))
