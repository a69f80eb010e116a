"""Keys, packets and input rows that the tests of the pipeline ``packets`` share."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

from weft.pipelines.packet.judging import Means
from weft.pipelines.packet.keys import Keys
from weft.pipelines.packet.marks import Hasher
from weft.pipelines.packet.schema import INPUT
from weft.wire import emm, emm_compact
from weft.wire.emm import Credentials, SigningKey, TrustStore
from weft.wire.emm_compact.judge import Epochs
from weft.wire.emm_compact.judge import Terms as CompactTerms

VECTORS = Path(__file__).parents[1] / "vectors"
EMM_VECTORS: dict[str, Any] = json.loads((VECTORS / "emm" / "emm.json").read_text())
COMPACT_VECTORS: dict[str, Any] = json.loads((VECTORS / "emm_compact" / "emm_compact.json").read_text())

NODE = UUID(EMM_VECTORS["node_id"])
KEY_ID = bytes.fromhex(EMM_VECTORS["auth_key_id"])
SECRET = bytes.fromhex(EMM_VECTORS["hmac_key"])
SIGNER = SigningKey(bytes.fromhex(EMM_VECTORS["seed"]))
SEAL_KEY = bytes.fromhex(EMM_VECTORS["encryption_key"])
GROUP_KEYS = tuple(bytes.fromhex(key) for key in COMPACT_VECTORS["group_keys"].values())
PUBLIC_KEYS = tuple(bytes.fromhex(key) for key in COMPACT_VECTORS["public_keys"].values())
NOW_S: int = EMM_VECTORS["timestamp_s"]
NOW_US = NOW_S * 1_000_000
EPOCH = NOW_S % 65536

HASHER = Hasher(bytes(range(32)))


def trust() -> TrustStore:
    store = TrustStore()
    store.add_hmac_key(NODE, KEY_ID, SECRET)
    store.add_public_key(NODE, KEY_ID, SIGNER.public_key)
    return store


def ring() -> emm_compact.KeyRing:
    return emm_compact.KeyRing(
        GROUP_KEYS,
        {bytes.fromhex(COMPACT_VECTORS["node_id"]): PUBLIC_KEYS},
        {emm_compact.fingerprint(key): (key,) for key in PUBLIC_KEYS},
    )


class AnySeal(dict[bytes, bytes]):
    """The vectors' one key, whatever id a packet asks for."""

    def get(self, _key_id: bytes, _default: Any = None) -> Any:
        return SEAL_KEY


def keys(store: TrustStore | None = None) -> Keys:
    return Keys(store or trust(), ring(), AnySeal())


def means(store: TrustStore | None = None, epochs: Epochs = Epochs.ANY, **terms: Any) -> Means:
    """The vectors of EMM-C have epochs of their own, which tell no age."""
    return Means(keys(store), emm.Terms(**terms), HASHER, CompactTerms(epochs=epochs))


def event(
    message_id: int,
    *values: Any,
    at_s: int = NOW_S,
    name: str = "plant.temp",
    node: UUID = NODE,
    roomy: bool = False,
) -> bytes:
    """An event with an HMAC that ``trust`` knows."""
    draft = emm.draft_event(message_id, at_s, name, *values, node_id=node)
    rules = emm.Rules(packet_bytes_max=1200 if roomy else 548)
    return emm.build(draft, Credentials(KEY_ID, hmac_key=SECRET), rules=rules)


def notification(event_id: int, message: bytes = b"hello") -> bytes:
    return emm_compact.seal(
        emm_compact.Header(emm_compact.EventType.NOTIFICATION, event_id, EPOCH, 2),
        emm_compact.Notification(emm_compact.Priority.INFO, emm_compact.Format.PLAIN_TEXT, message),
        emm_compact.Signer(GROUP_KEYS[0], bytes(32)),
    ).raw


def pcap_file(*packets: tuple[int, bytes], port: int = 5030) -> bytes:
    """A classic capture of bare IPv4: (time in µs, datagram) from 192.0.2.7:4321."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)]
    for time_us, datagram in packets:
        udp = struct.pack("!HHHH", 4321, port, 8 + len(datagram), 0) + datagram
        addresses = bytes((192, 0, 2, 7, 192, 0, 2, 8))
        frame = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses + udp
        parts += [struct.pack("<IIII", *divmod(time_us, 1_000_000), len(frame), len(frame)), frame]
    return b"".join(parts)


def emm_vectors() -> dict[str, bytes]:
    return {vector["name"]: bytes.fromhex(vector["hex"]) for vector in EMM_VECTORS["vectors"]}


def compact_vectors() -> dict[str, bytes]:
    return {vector["name"]: bytes.fromhex(vector["hex"]) for vector in COMPACT_VECTORS["vectors"]}


def rows(
    datagrams: Sequence[bytes | None],
    arrived_us: Iterable[int | None] | int | None = NOW_US,
    source: str | None = "192.0.2.7:4321",
    first: int = 0,
) -> pa.RecordBatch:
    """Input rows of topic ``emm.raw``."""
    count = len(datagrams)
    times = [arrived_us] * count if arrived_us is None or isinstance(arrived_us, int) else list(arrived_us)
    columns: dict[str, Any] = {
        "topic": ["emm.raw"] * count,
        "origin": ["node-a"] * count,
        "epoch": [1] * count,
        "partition": [0] * count,
        "offset": list(range(first, first + count)),
        "arrived": times,
        "source": [source] * count,
        "datagram": datagrams,
        "problem": [None] * count,
    }
    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in INPUT], schema=INPUT)
