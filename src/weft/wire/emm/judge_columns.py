"""``judge`` for a block of datagrams at once: the same questions in the same order, each asked of all rows together.

HMACs are computed one by one and compared all at once. Signatures wait: ``verify`` checks them, as many at a time as
its caller has time for. For the same packets, one after the other, ``Judge`` says the same and marks the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.wire.columns import Bytes, Mask, Positions, cells, numbers, raw_bytes, valid
from weft.wire.emm.auth import Verdict, check_signature, is_signed
from weft.wire.emm.canonical import canonical_bytes
from weft.wire.emm.columnar import decode_column
from weft.wire.emm.fields import FLAGS_SEALED, Rules
from weft.wire.emm.judge import DEFAULT_TERMS, Terms, open_untrusted
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.replay import MARK_BYTES, SENDER_BYTES, stand_in
from weft.wire.emm.seal import KeyFinder, no_keys, rule_for
from weft.wire.emm.trust import TrustStore
from weft.wire.hmacs import DIGEST_BYTES, Prepared, digests, prepared
from weft.wire.judged import JudgedBlock
from weft.wire.reject import CODES, BadPacket, Reject
from weft.wire.seen import Seen

HMAC_KEYS_KEPT_MAX: Final = 10_000  # prepared HMAC keys, 500 bytes each
VERDICTS: Final = tuple(Verdict)
VERIFIED, UNVERIFIED_IDENTITY, UNSIGNED = (
    VERDICTS.index(verdict) for verdict in (Verdict.VERIFIED, Verdict.UNVERIFIED_IDENTITY, Verdict.UNSIGNED)
)

Sender = tuple[bytes, bytes | None]  # node id, auth key id
Signed = tuple[bytes, bytes]  # a signature with its message behind it, and the public key
SignatureCheck = Callable[[Sequence[Signed]], Sequence[bool]]


class JudgedRows(JudgedBlock):
    """A block of EMM. ``verdicts`` are places in ``VERDICTS``; of rows that are ``waiting``, what the verdict is if the
    signature fits. ``opened`` has the packets that were sealed."""

    def __init__(self, datagrams: pa.BinaryArray, sources: pa.StringArray, rules: Rules) -> None:
        super().__init__(datagrams, decode_column(datagrams, rules))
        self.sources = sources
        self.verdicts = np.full(len(datagrams), VERIFIED, np.int8)
        self.opened: dict[int, Packet] = {}
        self._rules = rules

    @property
    def sealed(self) -> Mask:
        sealed: Mask = (numbers(self.columns.column("flags")) & FLAGS_SEALED) != 0
        return sealed & self.good

    def has(self, name: str) -> Mask:
        return valid(self.columns.column(name))

    def packet(self, row: int) -> Packet:
        """A well-formed row, read once more: for the few that arrays are no help with."""
        return parse_untrusted(self.datagram(row), self._rules)

    def chosen(self, rows: Positions) -> pa.RecordBatch:
        """The columns of these rows, which are in order and without duplicates."""
        return self.columns if len(rows) == len(self) else self.columns.take(pa.array(rows))

    def fresh_at_s(self) -> npt.NDArray[np.uint64]:
        """The times that freshness is judged by (EMM-20)."""
        signed_at, created_at = self.columns.column("signed_at_s"), self.columns.column("timestamp_s")
        found: npt.NDArray[np.uint64] = np.where(valid(signed_at), numbers(signed_at), numbers(created_at))
        return found

    def canonical(self, rows: Positions) -> list[bytes]:
        """What HMACs and signatures of these rows speak about: nearly always the first bytes of the packet."""
        sizes = self.columns.column("signed_bytes")
        begins = self._offsets[rows]
        ends = begins + numbers(sizes)[rows]
        data = self._data
        found = [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        if sizes.null_count:
            for place in np.flatnonzero(~valid(sizes)[rows]).tolist():
                found[place] = canonical_bytes(self.packet(int(rows[place])))
        return found

    def carried(self) -> list[bytes | None]:
        """The public key in each packet, which mostly has none."""
        keys = self.columns.column("public_key")
        found: list[bytes | None] = [None] * len(keys) if keys.null_count == len(keys) else keys.to_pylist()
        return found

    def senders(self, rows: Positions) -> list[Sender]:
        """Node id and key id of rows that are authenticated, which have a node id (EMM-16). One sender's rows share one
        tuple: there are many more packets than senders."""
        chosen = self.chosen(rows)
        key_ids = chosen.column("auth_key_id")
        # node id:16 key id:4 whether there is one:1
        labels = np.hstack([raw_bytes(chosen.column("node_id")), raw_bytes(key_ids), valid(key_ids)[:, None]])
        named = cells(labels.astype(np.uint8, copy=False))
        known = {name: (name[:SENDER_BYTES], name[SENDER_BYTES:-1] if name[-1] else None) for name in set(named)}
        return [known[name] for name in named]

    def marks(self) -> Bytes:
        """``replay.replay_mark`` of each row; anything for rows that were refused."""
        marks = np.empty((len(self), MARK_BYTES), np.uint8)
        marks[:, :SENDER_BYTES] = raw_bytes(self.columns.column("node_id"))
        ids = np.ascontiguousarray(numbers(self.columns.column("message_id")), "<u4")
        marks[:, SENDER_BYTES:] = ids.view(np.uint8).reshape(len(self), -1)
        unsigned = np.flatnonzero((self.verdicts == UNSIGNED) & self.good)
        if len(unsigned):
            sources = self.sources if len(unsigned) == len(self) else self.sources.take(pa.array(unsigned))
            marks[unsigned, :SENDER_BYTES] = _stand_ins(sources.fill_null(""))
        for row in np.flatnonzero((self.verdicts == UNVERIFIED_IDENTITY) & self.good).tolist():
            carried = self.columns.column("public_key")[row].as_py()
            marks[row, :SENDER_BYTES] = np.frombuffer(stand_in(carried), np.uint8)
        return marks


def _stand_ins(sources: pa.StringArray) -> Bytes:
    """``replay.stand_in`` of each: there are many more packets than sources."""
    coded = sources.dictionary_encode()
    known = b"".join(stand_in(source.encode()) for source in coded.dictionary.to_pylist())
    found: Bytes = np.frombuffer(known, np.uint8).reshape(-1, SENDER_BYTES)[numbers(coded.indices)]
    return found


class HmacKeys:
    """The HMAC keys of a trust store, prepared. Only its keys are kept, so forgeries cannot fill the memory."""

    def __init__(self, trust: TrustStore) -> None:
        self._trust = trust
        self._known: dict[Sender, Prepared] = {}

    def forget(self) -> None:
        """Ask the trust store again for every key."""
        self._known.clear()

    def find(self, sender: Sender) -> Prepared | None:
        found = self._known.get(sender)
        if found is None:
            try:
                found = prepared(self._trust.hmac_key(*sender))
            except BadPacket:
                return None
            if len(self._known) >= HMAC_KEYS_KEPT_MAX:
                self._known.clear()
            self._known[sender] = found
        return found


def check_one_by_one(work: Sequence[Signed]) -> list[bool]:
    return [is_signed(*each) for each in work]


class ColumnJudge:
    """``seen`` remembers accepted packets; without it, the caller must find replays (``JudgedRows.marks``)."""

    def __init__(
        self,
        trust: TrustStore,
        terms: Terms = DEFAULT_TERMS,
        *,
        seen: Seen | None = None,
        find_key: KeyFinder = no_keys,
        hmac_keys: HmacKeys | None = None,
        check_signatures: SignatureCheck = check_one_by_one,
    ) -> None:
        self._trust = trust
        self._terms = terms
        self._seen = seen
        self._find_key = find_key
        self._hmac_keys = HmacKeys(trust) if hmac_keys is None else hmac_keys
        self._check_signatures = check_signatures

    def trust_changed(self) -> None:
        self._hmac_keys.forget()

    def sift(
        self, datagrams: pa.BinaryArray, sources: pa.StringArray, now_s: float | npt.NDArray[np.float64]
    ) -> JudgedRows:
        """``Judge.sift`` for each row; raise nothing, whatever the bytes. ``now_s``: one for all rows, or one each."""
        rows = JudgedRows(datagrams, sources, self._terms.rules)
        coded, signed = rows.has("hmac"), rows.has("signature")
        bare = ~coded & ~signed
        rows.verdicts[bare] = UNSIGNED
        if not self._terms.unsigned_allowed:
            rows.refuse(bare, Reject.UNSIGNED)
        self._check_fresh(rows, now_s)
        self._check_hmacs(rows, np.flatnonzero(coded & rows.good))
        self._look_up_signers(rows, np.flatnonzero(signed & rows.good))
        self._admit(rows, ~signed, now_s)
        rows.waiting = signed & rows.good
        return rows

    def verify(self, datagrams: pa.BinaryArray, sources: pa.StringArray, now_s: float) -> JudgedRows:
        """``Judge.verify`` of each: packets that ``sift`` left waiting."""
        rows = JudgedRows(datagrams, sources, self._terms.rules)
        self._check_fresh(rows, now_s)
        checked = np.flatnonzero(rows.good)
        in_order, carried, coded = rows.has("signed_bytes"), rows.carried(), rows.has("hmac")
        signatures, messages = cells(raw_bytes(rows.columns.column("signature"))), rows.canonical(checked)
        work: dict[int, Signed] = {}  # by row
        for row, sender, message in zip(checked.tolist(), rows.senders(checked), messages, strict=True):
            try:
                if in_order[row]:
                    work[row] = signatures[row] + message, self._trust.public_key(*sender)
                else:  # it may carry a key, which others behind it may need (EMM-17)
                    self._look_up_signer(rows, row, sender, carried[row], coded[row])
                    check_signature(rows.packet(row), self._trust)
            except BadPacket as error:
                rows.refuse_row(row, error.reason)
        for row, good in zip(work, self._check_signatures(list(work.values())), strict=True):
            if not good:
                rows.refuse_row(row, Reject.BAD_SIGNATURE)
        self._admit(rows, np.ones(len(rows), np.bool_), now_s)
        return rows

    def open(self, rows: JudgedRows) -> None:
        """``Judge.open`` of the accepted rows: sealed ones into ``rows.opened``, or refused."""
        self.refuse_unsealed(rows)
        for row in np.flatnonzero(rows.accepted & rows.sealed).tolist():
            try:
                rows.opened[row] = open_untrusted(rows.packet(row), self._terms, self._find_key)
            except BadPacket as error:
                rows.refuse_row(row, error.reason)

    def refuse_unsealed(self, rows: JudgedRows) -> None:
        """Refuse the accepted rows that are in the clear although events of their name must be encrypted."""
        if not self._terms.sealed:
            return
        chosen = rows.accepted & ~rows.sealed
        coded = rows.columns.column("event_name").dictionary_encode()
        for code, name in enumerate(coded.dictionary.to_pylist()):
            if rule_for(self._terms.sealed, name) is not None:
                rows.refuse(chosen & (coded.indices.fill_null(-1).to_numpy() == code), Reject.UNSEALED)

    # --- the questions -----------------------------------------------------------------------------------------------

    def _check_fresh(self, rows: JudgedRows, now_s: float | npt.NDArray[np.float64]) -> None:
        """``replay.check_fresh`` of all rows (EMM-20)."""
        ages_s = now_s - rows.fresh_at_s().astype(np.float64)
        rows.refuse(ages_s > self._terms.window_s, Reject.STALE)
        rows.refuse(-ages_s > self._terms.skew_s_max, Reject.FUTURE)

    def _check_hmacs(self, rows: JudgedRows, checked: Positions) -> None:
        """Compute all of them, then compare all of them: every byte of every code, whatever it is (EMM-14)."""
        if not len(checked):
            return
        senders = rows.senders(checked)
        known = {sender: self._hmac_keys.find(sender) for sender in set(senders)}
        if None in known.values():
            unknown = np.fromiter((known[sender] is None for sender in senders), np.bool_, len(senders))
            rows.codes[checked[unknown]] = CODES[Reject.UNKNOWN_KEY]
            senders = [sender for sender in senders if known[sender] is not None]
            checked = checked[~unknown]
            if not len(checked):
                return
        keys = [key for sender in senders if (key := known[sender]) is not None]
        made = digests(zip(keys, rows.canonical(checked), strict=True))
        codes = raw_bytes(rows.columns.column("hmac"))[checked]
        differs = np.frombuffer(b"".join(made), np.uint8).reshape(-1, DIGEST_BYTES) ^ codes
        rows.codes[checked[np.bitwise_or.reduce(differs, axis=1) != 0]] = CODES[Reject.BAD_HMAC]

    def _look_up_signers(self, rows: JudgedRows, signed: Positions) -> None:
        if not len(signed):
            return
        carried, coded = rows.carried(), rows.has("hmac").tolist()
        for row, sender in zip(signed.tolist(), rows.senders(signed), strict=True):
            try:
                self._look_up_signer(rows, row, sender, carried[row], coded[row])
            except BadPacket as error:
                rows.refuse_row(row, error.reason)

    def _look_up_signer(self, rows: JudgedRows, row: int, sender: Sender, carried: bytes | None, coded: bool) -> None:
        """``auth.promised_verdict`` of a row with a signature."""
        if carried is None:
            self._trust.public_key(*sender)
        elif not self._trust.judge_carried_key(sender[0], carried) and not coded:
            rows.verdicts[row] = UNVERIFIED_IDENTITY

    def _admit(self, rows: JudgedRows, marking: Mask, now_s: float | npt.NDArray[np.float64]) -> None:
        """Refuse what was seen before, and mark what is ``marking`` of the rest (EMM-19)."""
        if self._seen is None:
            return
        assert isinstance(now_s, float | int), "a memory has one clock"
        candidates = np.flatnonzero(rows.good)
        hashes = self._seen.hashes(rows.marks()[candidates]).tolist()
        marks = None if marking.all() else marking[candidates].tolist()
        for place in self._seen.admit(hashes, marks, now_s):
            rows.refuse_row(int(candidates[place]), Reject.REPLAY)
