"""Fuzz targets of the gateway: any bytes, in bulk and of both header formats, as far as batches for the log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from tests.fuzz.pieces import pieces
from weft.gateway.emm.accepting import Acceptance
from weft.gateway.emm.batches import batches, quarantined
from weft.gateway.emm.checkers import Checkers
from weft.gateway.emm.compact_judge import CompactJudge
from weft.gateway.emm.judge import EmmJudge
from weft.gateway.emm.names import NameRights
from weft.gateway.emm.replay_journal import BLOCK, HEADER, NAMES, ReplayJournal, blocks_untrusted
from weft.gateway.emm.rows import Arrived, Judged
from weft.gateway.emm.topics import TopicMap
from weft.model import Pattern
from weft.wire.emm import SigningKey, Terms, TrustPolicy, TrustStore
from weft.wire.emm.fields import HEADER_BYTES
from weft.wire.emm_compact import KeyRing
from weft.wire.seen import SALT_BYTES, Seen

_VECTORS = Path(__file__).parents[1] / "vectors"
_EMM = json.loads((_VECTORS / "emm" / "emm.json").read_text())
_COMPACT = json.loads((_VECTORS / "emm_compact" / "emm_compact.json").read_text())
_NODE, _KEY_ID = UUID(hex=_EMM["node_id"]), bytes.fromhex(_EMM["auth_key_id"])
_TRUST = TrustStore(TrustPolicy.ANY)
_TRUST.add_hmac_key(_NODE, _KEY_ID, bytes.fromhex(_EMM["hmac_key"]))
_TRUST.add_public_key(_NODE, _KEY_ID, SigningKey(bytes(32)).public_key)
_SALT = bytes(range(SALT_BYTES))
_CHECKERS = Checkers(helpers=0)


def emm(data: bytes) -> None:
    """Judges that know the vectors' keys and take unsigned packets, so that mutations get far; in bulk and one by one,
    which must come to the same."""
    arrived = [Arrived(piece, "fuzz:1") for piece in pieces(data, HEADER_BYTES)]
    found = []
    names, terms = NameRights({_NODE.bytes: [(Pattern("plant.*"),)]}), Terms(unsigned_allowed=True)
    for few_max in (0, len(arrived)):
        seen, acceptance = Seen(_SALT, entries_max=64), Acceptance(TopicMap())
        judge = EmmJudge(_TRUST, seen, acceptance, _CHECKERS.check, terms, names, few_max=few_max)
        found.append(_accounted(judge, arrived, _EMM["timestamp_s"]))
    assert found[0] == found[1]


def compact(data: bytes) -> None:
    judge = CompactJudge(KeyRing((b"g" * 32,)), Seen(_SALT, entries_max=64), TopicMap(), NameRights())
    arrived = [Arrived(piece, "fuzz:1") for piece in pieces(data, 8)]
    _accounted(judge, arrived, 0.0)


def _accounted(judge: EmmJudge | CompactJudge, arrived: list[Arrived], now_s: float) -> Counter[tuple[bytes, str]]:
    """Every datagram is taken or refused, and what is taken fits batches; what is refused and why."""
    first = judge.sort_out(arrived, now_s)
    then = judge.verify(first.waiting, now_s) if first.waiting else Judged()
    accepted, rejected = first.accepted + then.accepted, first.rejected + then.rejected
    assert sum(map(len, accepted)) + len(rejected) == len(arrived)
    made = batches(accepted, lambda topic, events: None)
    assert sum(len(batch) for _, batch in made) == sum(map(len, accepted))
    if rejected:
        assert list(quarantined(rejected, now_s).payloads.to_pylist()) == [each.data for each in rejected]
    return Counter((each.data, str(each.reason)) for each in rejected)


def replays(data: bytes) -> None:
    """A journal of taken packets, as a power cut or a broken disk may leave it."""
    blocks = list(blocks_untrusted(data))
    taken = sum(BLOCK.size + 8 * len(hashes) for _, hashes in blocks)
    assert not blocks or HEADER.size + taken <= len(data)


def _journal() -> bytes:
    with TemporaryDirectory() as directory:
        journal = ReplayJournal(Path(directory), _SALT, 0.0)
        for number in range(3):
            journal.append(list(range(number)), float(number))
        journal.close()
        return (Path(directory) / NAMES[0]).read_bytes()


TARGETS = {"gateway-emm": emm, "gateway-emm-compact": compact, "gateway-emm-replays": replays}
SEEDS = {
    "gateway-emm": [bytes.fromhex(vector["hex"]) for vector in _EMM["vectors"]],
    "gateway-emm-compact": [bytes.fromhex(vector["hex"]) for vector in _COMPACT["vectors"]],
    "gateway-emm-replays": [_journal()],
}
