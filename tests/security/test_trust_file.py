"""Keys of devices on disk: for both header formats, changed while a node runs."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from weft.errors import StorageError, UsageError
from weft.model import Pattern
from weft.security import Secret, Trust, TrustFile
from weft.security.trust_file import (
    DeviceKey,
    DeviceNames,
    KeyKind,
    Pin,
    SealKey,
    add_device,
    add_group,
    add_pins,
    add_seal,
    fingerprint,
    read_trust,
    remove_devices,
    remove_group,
    remove_seal,
    set_names,
)
from weft.wire import emm, emm_compact
from weft.wire.reject import BadPacket

SENSOR, PUMP = UUID(int=1), UUID(int=2)
K1, K2 = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"
HMAC = DeviceKey(SENSOR, K1, KeyKind.HMAC, Secret(b"s" * 32))
PUBLIC = DeviceKey(SENSOR, K1, KeyKind.ED25519, Secret(emm.SigningKey(b"1" * 32).public_key))
OTHER = DeviceKey(PUMP, K2, KeyKind.ED25519, Secret(emm.SigningKey(b"2" * 32).public_key))
GROUP, NEW_GROUP = Secret(b"g" * 16), Secret(b"n" * 16)


@pytest.mark.req("EMM-17")
def test_what_is_added_comes_back_and_is_for_its_owner_only(tmp_path: Path) -> None:
    assert read_trust(tmp_path) == Trust()
    for each in (HMAC, PUBLIC, OTHER):
        add_device(tmp_path, each)
    for group in (GROUP, NEW_GROUP):
        add_group(tmp_path, group)
    assert read_trust(tmp_path) == Trust((HMAC, PUBLIC, OTHER), (GROUP, NEW_GROUP))
    assert (tmp_path / "trust.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("EMM-17")
def test_pins_are_kept_and_follow_the_file(tmp_path: Path) -> None:
    key, other = PUBLIC.key.reveal(), OTHER.key.reveal()
    add_device(tmp_path, OTHER)
    add_pins(tmp_path, {SENSOR: key, PUMP: key})
    add_pins(tmp_path, {SENSOR: other})
    before = read_trust(tmp_path)
    assert before.pins == (Pin(SENSOR, key),), "the first one counts, and only where no key is known"
    for policy in emm.TrustPolicy:
        store = emm.TrustStore(policy)
        before.fill(store, Trust())
        if policy is emm.TrustPolicy.FIRST_USE:
            assert store.public_key(SENSOR.bytes, None) == key
            with pytest.raises(BadPacket):
                store.judge_carried_key(SENSOR.bytes, other)
        else:
            with pytest.raises(BadPacket):
                store.public_key(SENSOR.bytes, None)
    assert remove_devices(tmp_path, SENSOR, None) == 1
    store = emm.TrustStore(emm.TrustPolicy.FIRST_USE)
    before.fill(store, Trust())
    read_trust(tmp_path).fill(store, before)
    assert store.judge_carried_key(SENSOR.bytes, other), "the next key counts as the first"


@pytest.mark.req("SEC-03")
def test_names_belong_to_the_device_whichever_key_it_uses(tmp_path: Path) -> None:
    plant, door = (Pattern("plant.*"),), (Pattern("door.>"), Pattern("gate"))
    add_device(tmp_path, HMAC, plant)
    add_device(tmp_path, PUBLIC)
    assert read_trust(tmp_path).names == (DeviceNames(SENSOR, plant),), "a further key changes nothing"
    set_names(tmp_path, DeviceNames(SENSOR, door))
    by_sender = read_trust(tmp_path).names_by_sender()
    assert by_sender == {SENSOR.bytes: [door], emm_compact.fingerprint(PUBLIC.key.reveal()): [door]}
    add_pins(tmp_path, {PUMP: OTHER.key.reveal()})
    set_names(tmp_path, DeviceNames(PUMP, plant))
    remove_devices(tmp_path, SENSOR, K1)
    assert read_trust(tmp_path).names == (DeviceNames(SENSOR, door), DeviceNames(PUMP, plant))
    add_device(tmp_path, HMAC)
    remove_devices(tmp_path, SENSOR, None)
    assert read_trust(tmp_path).names == (DeviceNames(PUMP, plant),)


@pytest.mark.req("SEC-03")
def test_devices_that_share_a_key_may_use_what_both_may(tmp_path: Path) -> None:
    shared = DeviceKey(PUMP, K1, KeyKind.ED25519, PUBLIC.key)
    plant, temp = (Pattern("plant.*"),), (Pattern("*.temp"),)
    add_device(tmp_path, PUBLIC, plant)
    add_device(tmp_path, shared, temp)
    found = read_trust(tmp_path).names_by_sender()
    assert found[emm_compact.fingerprint(PUBLIC.key.reveal())] == [plant, temp]
    assert (found[SENSOR.bytes], found[PUMP.bytes]) == ([plant], [temp])


@pytest.mark.req("SEC-03")
def test_names_are_bounded_and_need_a_key(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no key of node"):
        set_names(tmp_path, DeviceNames(SENSOR, (Pattern(">"),)))
    add_device(tmp_path, HMAC)
    with pytest.raises(UsageError, match=r"1 to 64 patterns.*have 65"):
        set_names(tmp_path, DeviceNames(SENSOR, tuple(Pattern(f"n{number}") for number in range(65))))
    file = tmp_path / "trust.json"
    for patterns in ("[]", '["a..b"]', '["a b"]'):
        file.write_text(f'{{"names": [{{"node_id": "{SENSOR}", "patterns": {patterns}}}]}}')
        with pytest.raises(StorageError, match=r"trust\.json is damaged"):
            read_trust(tmp_path)


@pytest.mark.req("EMM-23")
def test_encryption_keys_are_found_by_their_ids(tmp_path: Path) -> None:
    for number in (1, 2, 1):
        add_seal(tmp_path, SealKey(bytes([number]) * 16, Secret(bytes([number + 10]) * 32)))
    assert read_trust(tmp_path).seal_keys() == {b"\x02" * 16: b"\x0c" * 32, b"\x01" * 16: b"\x0b" * 32}
    remove_seal(tmp_path, b"\x02" * 16)
    assert list(read_trust(tmp_path).seal_keys()) == [b"\x01" * 16]
    with pytest.raises(UsageError, match="no encryption key"):
        remove_seal(tmp_path, b"\x02" * 16)
    with pytest.raises(UsageError, match="an encryption key has 32 bytes"):
        add_seal(tmp_path, SealKey(b"i" * 16, Secret(b"short")))


def test_a_key_in_the_same_place_is_replaced(tmp_path: Path) -> None:
    add_device(tmp_path, HMAC)
    replaced = DeviceKey(SENSOR, K1, KeyKind.HMAC, Secret(b"t" * 32))
    add_device(tmp_path, replaced)
    assert read_trust(tmp_path).devices == (replaced,)


def test_removing(tmp_path: Path) -> None:
    for each in (HMAC, PUBLIC, DeviceKey(SENSOR, K2, KeyKind.HMAC, Secret(b"u" * 32)), OTHER):
        add_device(tmp_path, each)
    assert remove_devices(tmp_path, SENSOR, K1) == 2
    assert remove_devices(tmp_path, SENSOR, None) == 1
    assert read_trust(tmp_path).devices == (OTHER,)
    with pytest.raises(UsageError, match="no key of node 00000000-0000-0000-0000-000000000002 with key id 00000001"):
        remove_devices(tmp_path, PUMP, K1)
    add_group(tmp_path, GROUP)
    with pytest.raises(UsageError, match="no group key 'ffffffff'"):
        remove_group(tmp_path, "ffffffff")
    remove_group(tmp_path, fingerprint(GROUP).upper())
    assert read_trust(tmp_path).groups == ()


@pytest.mark.req("EMM-17")
def test_a_store_is_brought_up_to_date(tmp_path: Path) -> None:
    store = emm.TrustStore(emm.TrustPolicy.FIRST_USE)
    store.remember_first_use(UUID(int=9).bytes, b"p" * 32)
    before = Trust((HMAC, PUBLIC, OTHER))
    before.fill(store, Trust())
    assert store.hmac_key(SENSOR.bytes, K1) == HMAC.key.reveal()
    assert store.public_key(PUMP.bytes, K2) == OTHER.key.reveal()
    Trust((PUBLIC,)).fill(store, before)
    with pytest.raises(BadPacket):
        store.hmac_key(SENSOR.bytes, K1)
    with pytest.raises(BadPacket):
        store.public_key(PUMP.bytes, K2)
    assert store.public_key(SENSOR.bytes, K1) == PUBLIC.key.reveal(), "the other kind in the same place stays"
    assert store.public_key(UUID(int=9).bytes, None) == b"p" * 32, "and so does what was pinned"


@pytest.mark.req("EMC-05")
def test_the_key_ring_of_emm_c(tmp_path: Path) -> None:
    again = DeviceKey(PUMP, K1, KeyKind.ED25519, PUBLIC.key)
    ring = Trust((HMAC, PUBLIC, OTHER, again), (GROUP, NEW_GROUP)).key_ring()
    one, two = PUBLIC.key.reveal(), OTHER.key.reveal()
    assert ring == emm_compact.KeyRing(
        (GROUP.reveal(), NEW_GROUP.reveal()),
        {SENSOR.bytes: (one,), PUMP.bytes: (two, one)},
        {emm_compact.fingerprint(one): (one,), emm_compact.fingerprint(two): (two,)},
    )


def test_keys_that_the_codecs_would_not_take(tmp_path: Path) -> None:
    for wanted in (
        DeviceKey(SENSOR, K1, KeyKind.HMAC, Secret(b"short")),
        DeviceKey(SENSOR, K1, KeyKind.ED25519, Secret(b"p" * 31)),
        DeviceKey(SENSOR, b"\x00", KeyKind.HMAC, HMAC.key),
    ):
        with pytest.raises(UsageError):
            add_device(tmp_path, wanted)
    with pytest.raises(UsageError, match="too short"):
        add_group(tmp_path, Secret(b"g" * 15))
    for number in range(8):
        add_group(tmp_path, Secret(bytes([number]) * 16))
    with pytest.raises(UsageError, match="too many group keys"):
        add_group(tmp_path, GROUP)
    with pytest.raises(UsageError, match="exists already"):
        add_group(tmp_path, Secret(bytes([7]) * 16))
    for number in range(4):
        add_device(tmp_path, DeviceKey(SENSOR, bytes([0, 0, 0, number]), KeyKind.ED25519, PUBLIC.key))
    with pytest.raises(UsageError, match="too many keys of one node id"):
        add_device(tmp_path, DeviceKey(SENSOR, bytes([0, 0, 0, 4]), KeyKind.ED25519, PUBLIC.key))
    assert len(read_trust(tmp_path).devices) == 4, "what was refused left no trace"


@pytest.mark.req("EMM-17")
def test_a_running_node_sees_changes_within_a_second(tmp_path: Path) -> None:
    file = TrustFile(tmp_path, 0.0)
    nothing = file.current(0.0)
    add_device(tmp_path, HMAC)
    assert file.current(0.9) is nothing
    assert file.current(1.0).devices == (HMAC,)
    (tmp_path / "trust.json").write_text("{")
    assert file.current(2.0).devices == (HMAC,)
    assert file.problem is not None
    assert file.problem.startswith("trust.json is damaged")


@pytest.mark.parametrize(
    "change",
    [{"devices": [{"node_id": "x"}]}, {"groups": ["zz"]}, {"groups": ["00"]}, {"unknown": 1}, {"devices": {}}],
)
def test_damage_is_said_without_showing_keys(tmp_path: Path, change: dict[str, object]) -> None:
    add_device(tmp_path, HMAC)
    document = msgspec.json.decode((tmp_path / "trust.json").read_bytes())
    (tmp_path / "trust.json").write_bytes(msgspec.json.encode(document | change))
    with pytest.raises(StorageError, match=r"trust\.json is damaged") as caught:
        read_trust(tmp_path)
    assert HMAC.key.reveal().hex() not in str(caught.value)


@pytest.mark.req("EMC-05")
def test_a_group_key_is_believed_first_and_signs_later(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no other group key to sign with"):
        add_group(tmp_path, NEW_GROUP, signs=False)
    add_group(tmp_path, GROUP)
    add_group(tmp_path, NEW_GROUP, signs=False)
    assert read_trust(tmp_path).groups == (NEW_GROUP, GROUP), "the last one signs"
    with pytest.raises(UsageError, match="exists already"):
        add_group(tmp_path, NEW_GROUP, signs=False)
    add_group(tmp_path, NEW_GROUP)
    assert read_trust(tmp_path).groups == (GROUP, NEW_GROUP)
    with pytest.raises(UsageError, match="exists already"):
        add_group(tmp_path, NEW_GROUP)
