"""``weft trust``: keys of devices go in and are never printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Weft
from weft.security.trust_file import read_trust

NODE = "11111111-1111-1111-1111-111111111111"
HMAC_KEY, PUBLIC_KEY, GROUP_KEY = "5e" * 32, "ab" * 32, "60" * 16


@pytest.mark.req("EMM-17", "EMC-05")
def test_add_list_remove(weft: Weft, tmp_path: Path) -> None:
    device = ("trust", "add", "--data", tmp_path, "--node-id", NODE)
    assert weft(*device, "--key-id", "00000001", "--hmac-key", HMAC_KEY).status == 0
    assert weft(*device, "--key-id", "00000002", "--public-key", PUBLIC_KEY).status == 0
    assert weft("trust", "add", "--data", tmp_path, "--group", GROUP_KEY).status == 0

    document = weft("trust", "list", "--data", tmp_path, "--json")
    text = weft("trust", "list", "--data", tmp_path)
    for secret in (HMAC_KEY, PUBLIC_KEY, GROUP_KEY):
        assert secret not in document.out + text.out
    devices = document.document["devices"]
    assert [(each["node_id"], each["key_id"], each["kind"]) for each in devices] == [
        (NODE, "00000001", "hmac"),
        (NODE, "00000002", "ed25519"),
    ]
    (group,) = document.document["groups"]
    assert all(each["fingerprint"] in text.out for each in devices)

    assert "1 removed" in weft("trust", "remove", "--data", tmp_path, "--node-id", NODE, "--key-id", "00000001").err
    assert weft("trust", "remove", "--data", tmp_path, "--group", group).status == 0
    assert "1 removed" in weft("trust", "remove", "--data", tmp_path, "--node-id", NODE).err
    assert "no keys yet" in weft("trust", "list", "--data", tmp_path).err


@pytest.mark.req("SEC-03")
def test_names_are_given_with_a_key_or_afterwards_and_listed(weft: Weft, tmp_path: Path) -> None:
    key = ("--node-id", NODE, "--key-id", "00000001", "--hmac-key", HMAC_KEY)
    assert weft("trust", "add", "--data", tmp_path, *key, "--names", "plant.*", "--names", "door.>").status == 0
    assert "plant.* door.>" in weft("trust", "list", "--data", tmp_path).out
    assert weft("trust", "allow", "--data", tmp_path, "--node-id", NODE, "--names", "plant.temp").status == 0
    shown = weft("trust", "list", "--data", tmp_path, "--json")
    assert shown.document["names"] == [{"node_id": NODE, "patterns": ["plant.temp"]}]


@pytest.mark.req("EMM-23")
def test_encryption_keys_have_an_id_of_their_own_or_a_devices(weft: Weft, tmp_path: Path) -> None:
    add = ("trust", "add", "--data", tmp_path, "--encryption-key")
    assert weft(*add, "77" * 32, "--key-id", "a1" * 16).status == 0
    assert weft(*add, "-", "--node-id", NODE, stdin=b"78" * 32).status == 0
    assert read_trust(tmp_path).seal_keys() == {b"\xa1" * 16: b"w" * 32, b"\x11" * 16: b"x" * 32}
    shown = weft("trust", "list", "--data", tmp_path, "--json")
    assert [each["key_id"] for each in shown.document["encryption"]] == ["a1" * 16, "11" * 16]
    assert "77777777" not in shown.out + weft("trust", "list", "--data", tmp_path).out
    assert weft("trust", "remove", "--data", tmp_path, "--encryption-key", "a1" * 16).status == 0
    assert "1 removed" in weft("trust", "remove", "--data", tmp_path, "--node-id", NODE).err
    assert read_trust(tmp_path).seals == ()


def test_secrets_by_standard_input(weft: Weft, tmp_path: Path) -> None:
    device = ("trust", "add", "--data", tmp_path, "--node-id", NODE, "--key-id", "00000001")
    assert weft(*device, "--hmac-key", "-", stdin=f"{HMAC_KEY}\n".encode()).status == 0
    assert weft("trust", "add", "--data", tmp_path, "--group", "-", stdin=GROUP_KEY.encode()).status == 0
    trust = read_trust(tmp_path)
    assert trust.devices[0].key.reveal().hex() == HMAC_KEY
    assert trust.groups[0].reveal().hex() == GROUP_KEY


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("add",), 2, "give one of --hmac-key, --public-key, --encryption-key and --group"),
        (("add", "--group", GROUP_KEY, "--hmac-key", HMAC_KEY), 2, "give one of"),
        (("add", "--group", GROUP_KEY, "--node-id", NODE), 2, "belongs to no device"),
        (("add", "--hmac-key", HMAC_KEY, "--node-id", NODE), 2, "needs --node-id and --key-id"),
        (("add", "--hmac-key", HMAC_KEY, "--node-id", "x", "--key-id", "00000001"), 1, "is not a UUID"),
        (("add", "--hmac-key", HMAC_KEY, "--node-id", NODE, "--key-id", "1"), 1, "is not 8 hexadecimal digits"),
        (("add", "--hmac-key", "5e5e5ez", "--node-id", NODE, "--key-id", "00000001"), 1, "--hmac-key is not a key"),
        (("add", "--hmac-key", "5e5e5e", "--node-id", NODE, "--key-id", "00000001"), 1, "HMAC key is too short"),
        (("add", "--public-key", "5e5e5e", "--node-id", NODE, "--key-id", "00000001"), 1, "has the wrong size"),
        (("add", "--group", GROUP_KEY, "--believe-only"), 1, "no other group key to sign with"),
        (("add", "--node-id", NODE, "--hmac-key", HMAC_KEY, "--believe-only"), 2, "--believe-only is for group keys"),
        (("add", "--group", ""), 2, "--group is empty"),
        (("add", "--encryption-key", "77" * 32), 2, "has an id of its own"),
        (("add", "--encryption-key", "77" * 32, "--key-id", "00000001"), 1, "is 32 hexadecimal digits"),
        (("add", "--encryption-key", "7777", "--key-id", "a1" * 16), 1, "an encryption key has 32 bytes"),
        (("add", "--group", GROUP_KEY, "--names", "plant.*"), 2, "--names goes with a device's key"),
        (
            ("add", "--hmac-key", HMAC_KEY, "--node-id", NODE, "--key-id", "00000001", "--names", "a..b"),
            1,
            "token 2 is empty",
        ),
        (("allow", "--node-id", NODE), 2, "give --names PATTERN"),
        (("allow", "--node-id", NODE, "--names", ">"), 1, "there is no key of node"),
        (("remove", "--encryption-key", "a1" * 16), 1, "there is no encryption key"),
        (("remove",), 2, "give one of --node-id, --encryption-key and --group"),
        (("remove", "--node-id", NODE), 1, "there is no key of node"),
        (("remove", "--group", "00000000"), 1, "there is no group key"),
    ],
)
def test_mistakes_are_one_line_and_repeat_no_secret(
    weft: Weft, tmp_path: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    outcome = weft("trust", *arguments, "--data", tmp_path)
    assert (outcome.status, outcome.out) == (status, "")
    assert words in " ".join(outcome.err.split())
    assert "5e5e" not in outcome.err
    assert not (tmp_path / "trust.json").exists()
