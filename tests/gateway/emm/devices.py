"""Devices for tests: keys that are theirs, and packets that they make."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from weft.gateway.emm.accepting import Acceptance
from weft.gateway.emm.checkers import Checkers
from weft.gateway.emm.judge import EmmJudge
from weft.gateway.emm.names import NameRights, NamesBySender
from weft.gateway.emm.rows import Accepted, Arrived
from weft.gateway.emm.settings import Payload
from weft.gateway.emm.topics import TopicMap
from weft.security import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device
from weft.wire import emm
from weft.wire.emm.seal import KeyFinder, no_keys
from weft.wire.seen import SALT_BYTES, Seen

NOW = 1_700_000_000
KEY_ID = b"key1"
SOURCE = "10.0.0.9:4700"
CHECKERS = Checkers(helpers=1)
_numbers = count(1)


@dataclass
class JudgeSettings:
    """Up to how many datagrams judges of ``judge_of`` look at one by one; 0: none."""

    few_max: int = 0


settings = JudgeSettings()


@dataclass(frozen=True)
class Device:
    """A sensor with a shared secret, or one that signs."""

    number: int = 1
    signs: bool = False
    secret: bytes = b"s" * 32
    seed: bytes = b"e" * 32
    credentials: emm.Credentials = field(init=False)

    def __post_init__(self) -> None:
        key = {"signing_key": emm.SigningKey(self.seed)} if self.signs else {"hmac_key": self.secret}
        object.__setattr__(self, "credentials", emm.Credentials(KEY_ID, **key))

    @property
    def node_id(self) -> UUID:
        return UUID(int=self.number)

    @property
    def key(self) -> DeviceKey:
        if self.signs:
            public = emm.SigningKey(self.seed).public_key
            return DeviceKey(self.node_id, KEY_ID, KeyKind.ED25519, Secret(public))
        return DeviceKey(self.node_id, KEY_ID, KeyKind.HMAC, Secret(self.secret))

    def trust(self, data: Path) -> None:
        add_device(data, self.key)

    def add_to(self, store: emm.TrustStore) -> None:
        if self.signs:
            store.add_public_key(self.node_id, KEY_ID, self.key.key.reveal())
        else:
            store.add_hmac_key(self.node_id, KEY_ID, self.secret)

    def event(self, name: str = "plant.temp", *values: Any, at_s: int = NOW, number: int = 0, **draft: Any) -> bytes:
        made = emm.draft_event(number or next(_numbers), at_s, name, *values, node_id=self.node_id)
        return emm.build(replace(made, **draft), self.credentials)

    def hello(self, at_s: int = NOW) -> bytes:
        return emm.build(emm.draft_hello(next(_numbers), at_s, self.node_id, b"test"), self.credentials)

    def heartbeat(self, at_s: int = NOW) -> bytes:
        return emm.build(emm.draft_heartbeat(next(_numbers), at_s, self.node_id), self.credentials)


def forged(packet: bytes) -> bytes:
    """The same with another authenticator."""
    return packet[:-1] + bytes((packet[-1] ^ 1,))


def judge_of(
    *devices: Device,
    policy: emm.TrustPolicy = emm.TrustPolicy.PINNED,
    payload: Payload = Payload.VALUE,
    unsigned_allowed: bool = False,
    store: emm.TrustStore | None = None,
    names: NamesBySender | None = None,
    find_key: KeyFinder = no_keys,
) -> EmmJudge:
    store = emm.TrustStore(policy) if store is None else store
    for device in devices:
        device.add_to(store)
    seen = Seen(bytes(range(SALT_BYTES)))
    acceptance = Acceptance(TopicMap(), payload)
    terms = emm.Terms(unsigned_allowed=unsigned_allowed)
    return EmmJudge(
        store, seen, acceptance, CHECKERS.check, terms, NameRights(names), find_key, few_max=settings.few_max
    )


def arrived(*packets: bytes, source: str = SOURCE) -> list[Arrived]:
    return [Arrived(packet, source) for packet in packets]


def rows_of(accepted: tuple[Accepted, ...]) -> list[dict[str, Any]]:
    """Row by row: topic, payload, key, time and headers."""
    found = []
    for some in accepted:
        headers = {name: column.to_pylist() for name, column in some.headers.items()}
        for row in range(len(some)):
            found.append(
                {
                    "topic": some.topics[some.codes[row]],
                    "payload": some.payloads[row].as_py(),
                    "key": some.keys[row].as_py(),
                    "time_us": int(some.timestamps_us[row]),
                    **{str(name): values[row] for name, values in headers.items() if values[row] is not None},
                }
            )
    return found
