"""Taking in EMM datagrams in bulk: parsed as columns, HMACs checked together, replays found together.

Takes what ``wire.emm.Receiver`` takes and refuses what it refuses. Only the order of the questions differs: cheap ones
come first (is it fresh, is there a key, was it seen), so that a flood of forgeries costs little. A packet with several
faults may therefore be refused for another one of them. A handful goes through ``one_by_one``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from weft.gateway.emm.accepting import Acceptance
from weft.gateway.emm.checkers import Checkers, Signed
from weft.gateway.emm.hmacs import DIGEST_BYTES, Prepared, digests, prepared
from weft.gateway.emm.one_by_one import OneByOne
from weft.gateway.emm.rows import Arrived, Judged, fixed_list, raw_bytes
from weft.gateway.emm.seen import Hashes, Seen
from weft.gateway.emm.sifting import (
    CODES,
    UNSIGNED,
    UNVERIFIED_IDENTITY,
    VERDICTS,
    VERIFIED,
    Mask,
    Sender,
    Sifted,
    Verdicts,
)
from weft.limits import CLOCK_SKEW_S_MAX, REPLAY_WINDOW_S
from weft.wire import emm
from weft.wire.emm import Field, Rules, TrustStore, Verdict
from weft.wire.emm.fields import DEFAULT_RULES, SIZES
from weft.wire.reject import BadPacket, Reject

GATEWAY_EMM_KEYS_KEPT_MAX: Final = 10_000  # prepared HMAC keys, 500 bytes each
FEW_MAX: Final = 48  # up to so many, one by one is quicker
SIGNATURE_BYTES: Final = SIZES[Field.SIGNATURE]


class Judge:
    """``sort_out`` settles everything but signatures, which cost fifty times as much as all the rest: ``verify`` does
    those, as many at a time as its caller has time for."""

    def __init__(
        self,
        trust: TrustStore,
        seen: Seen,
        acceptance: Acceptance,
        checkers: Checkers,
        *,
        rules: Rules = DEFAULT_RULES,
        unsigned_allowed: bool = False,
        few_max: int = FEW_MAX,
    ) -> None:
        self._trust = trust
        self._seen = seen
        self._acceptance = acceptance
        self._checkers = checkers
        self._few = OneByOne(trust, seen, acceptance.topics, acceptance.payload, rules, unsigned_allowed)
        self._few_max = few_max
        self._rules = rules
        self._unsigned_allowed = unsigned_allowed
        self._hmacs: dict[Sender, Prepared] = {}

    def trust_changed(self) -> None:
        """Ask the trust store again for every key."""
        self._hmacs.clear()

    def sort_out(self, arrived: Sequence[Arrived], unix_s: float) -> Judged:
        """What is to be thought of each datagram; raise nothing, whatever the bytes."""
        if len(arrived) <= self._few_max:
            return self._few.sort_out(arrived, unix_s)
        rows = Sifted(arrived, self._rules)
        verdicts = np.full(len(arrived), VERIFIED, np.int8)
        with_hmac, signed = rows.has("hmac"), rows.has("signature")
        verdicts[~with_hmac & ~signed] = UNSIGNED
        if not self._unsigned_allowed:
            rows.refuse(~with_hmac & ~signed, Reject.UNSIGNED)
        _check_fresh(rows, unix_s)
        checked = np.flatnonzero(with_hmac & rows.good)
        if len(checked):
            self._check_hmacs(rows, checked)
        waiting = np.flatnonzero(signed & rows.good)
        if len(waiting):
            self._judge_keys(rows, waiting, verdicts)
        hashes = self._hashes(rows, verdicts)
        if len(waiting):
            self._refuse_seen(rows, waiting, hashes)
            waiting = np.flatnonzero(signed & rows.good)
        return self._judged(rows, rows.good & ~signed, verdicts, hashes, unix_s, rows.take(waiting))

    def verify(self, waiting: Sequence[Arrived], unix_s: float) -> Judged:
        """Check the signatures of what ``sort_out`` left waiting."""
        if len(waiting) <= self._few_max:
            return self._few.verify(waiting, unix_s)
        rows = Sifted(waiting, self._rules)
        verdicts = np.full(len(waiting), VERIFIED, np.int8)
        _check_fresh(rows, unix_s)  # time has passed
        checked = np.flatnonzero(rows.good)
        sizes = rows.columns.column("signed_bytes").to_pylist()
        signatures = fixed_list(rows.columns.column("signature"), SIGNATURE_BYTES)
        work: dict[int, Signed] = {}  # by row
        for row, sender in zip(checked.tolist(), rows.senders_of(checked), strict=True):
            data, size = waiting[row].data, sizes[row]
            try:
                if size is None:
                    verdicts[row] = VERDICTS.index(self._authenticate(data))
                else:  # ``sort_out`` has seen the HMAC, if there is one
                    work[row] = signatures[row] + data[:size], self._trust.public_key(*sender)
            except BadPacket as error:
                rows.refuse_row(row, error.reason)
        for row, good in zip(work, self._checkers.check(list(work.values())), strict=True):
            if not good:
                rows.refuse_row(row, Reject.BAD_SIGNATURE)
        return self._judged(rows, rows.good, verdicts, self._hashes(rows, verdicts), unix_s, ())

    def _judged(
        self,
        rows: Sifted,
        ready: Mask,
        verdicts: Verdicts,
        hashes: Hashes,
        unix_s: float,
        waiting: tuple[Arrived, ...],
    ) -> Judged:
        taken = np.flatnonzero(ready)
        for place in self._seen.admit(hashes[taken].tolist(), unix_s):
            rows.refuse_row(int(taken[place]), Reject.REPLAY)
        accepted = self._acceptance.accepted(rows, ready & rows.good, verdicts, unix_s)
        return Judged(accepted, rows.rejected(), waiting)

    def _hashes(self, rows: Sifted, verdicts: Verdicts) -> Hashes:
        return self._seen.hashes(rows.senders(verdicts), rows.numbers("message_id"))

    def _authenticate(self, data: bytes) -> Verdict:
        """The whole of it, for packets with a key of their own and others whose order is not that of the wire."""
        return emm.authenticate(emm.parse_untrusted(data, self._rules), self._trust)

    # --- HMACs ---------------------------------------------------------------------------------------------------

    def _check_hmacs(self, rows: Sifted, checked: npt.NDArray[np.int64]) -> None:
        """Compute all of them, then compare all of them: every byte of every code, whatever it is (EMM-14)."""
        senders = rows.senders_of(checked)
        known = {sender: self._hmac(sender) for sender in set(senders)}
        keys = [known[sender] for sender in senders]
        if None in known.values():
            unknown = np.array([key is None for key in keys], np.bool_)
            rows.codes[checked[unknown]] = CODES[Reject.UNKNOWN_KEY]
            checked = checked[~unknown]
        if not len(checked):
            return
        work = zip([key for key in keys if key is not None], self._signed(rows, checked), strict=True)
        made = np.frombuffer(b"".join(digests(work)), np.uint8).reshape(-1, DIGEST_BYTES)
        found = raw_bytes(rows.columns.column("hmac"), DIGEST_BYTES)[checked]
        wrong = np.bitwise_or.reduce(found ^ made, axis=1) != 0
        rows.codes[checked[wrong]] = CODES[Reject.BAD_HMAC]

    def _hmac(self, sender: Sender) -> Prepared | None:
        """None if the trust store has no key. Only keys that it has are kept, so forgeries fill nothing."""
        known = self._hmacs.get(sender)
        if known is None:
            try:
                known = prepared(self._trust.hmac_key(*sender))
            except BadPacket:
                return None
            if len(self._hmacs) >= GATEWAY_EMM_KEYS_KEPT_MAX:
                self._hmacs.clear()
            self._hmacs[sender] = known
        return known

    def _signed(self, rows: Sifted, checked: npt.NDArray[np.int64]) -> list[bytes]:
        """The canonical bytes: nearly always those before the HMAC."""
        arrived, sizes = rows.arrived, rows.columns.column("signed_bytes").to_pylist()
        if len(checked) == len(arrived) and None not in sizes:
            return [data[:size] for (data, _), size in zip(arrived, sizes, strict=True)]
        return [
            arrived[row][0][: sizes[row]] if sizes[row] is not None else self._canonical(arrived[row][0])
            for row in checked.tolist()
        ]

    def _canonical(self, data: bytes) -> bytes:
        """Of the few packets whose canonical order is not that of the wire."""
        return emm.canonical_bytes(emm.parse_untrusted(data, self._rules))

    # --- before signatures ---------------------------------------------------------------------------------------

    def _judge_keys(self, rows: Sifted, waiting: npt.NDArray[np.int64], verdicts: Verdicts) -> None:
        """Refuse keys that are not trusted, and say what the verdict is if the signature fits."""
        senders, carried = rows.senders_of(waiting), rows.columns.column("public_key").to_pylist()
        with_hmac = rows.has("hmac")
        for row, (node_id, key_id) in zip(waiting.tolist(), senders, strict=True):
            try:
                if carried[row] is None:
                    self._trust.public_key(node_id, key_id)
                elif not self._trust.judge_carried_key(node_id, carried[row]) and not with_hmac[row]:
                    verdicts[row] = UNVERIFIED_IDENTITY
            except BadPacket as error:
                rows.refuse_row(row, error.reason)

    def _refuse_seen(self, rows: Sifted, waiting: npt.NDArray[np.int64], hashes: Hashes) -> None:
        """A packet that was seen needs no second look at its signature."""
        for row, value in zip(waiting.tolist(), hashes[waiting].tolist(), strict=True):
            if value in self._seen:
                rows.refuse_row(row, Reject.REPLAY)


def _check_fresh(rows: Sifted, unix_s: float) -> None:
    """``wire.emm.check_fresh`` for all rows (EMM-20)."""
    ages_s = unix_s - fresh_at_s(rows).astype(np.float64)
    rows.refuse(ages_s > REPLAY_WINDOW_S, Reject.STALE)
    rows.refuse(-ages_s > CLOCK_SKEW_S_MAX, Reject.FUTURE)


def fresh_at_s(rows: Sifted) -> npt.NDArray[np.uint64]:
    return np.where(rows.has("signed_at_s"), rows.numbers("signed_at_s"), rows.numbers("timestamp_s"))
