"""``weft keys``: a key is shown once, listed without its secret, and revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Weft
from weft.security.api_keys import KEY


@pytest.mark.req("SEC-02")
@pytest.mark.parametrize("command", ["show", "revoke"])
def test_a_whole_key_is_not_taken_for_its_id_and_not_repeated(weft: Weft, tmp_path: Path, command: str) -> None:
    key = weft("keys", "create", "--data", tmp_path, "--name", "billing", "--admin").out.strip()
    outcome = weft("keys", command, key, "--data", tmp_path)
    assert outcome.status == 2
    _, key_id, secret = key.split("_")
    assert f"give only its id, {key_id}" in outcome.err and secret not in outcome.err


@pytest.mark.req("SEC-02")
def test_create_list_revoke(weft: Weft, tmp_path: Path) -> None:
    created = weft(
        "keys", "create", "--data", tmp_path, "--name", "billing", "--publish", "orders.>", "--publish", "a.b",
        "--subscribe", "orders.paid", "--group", "billing*", "--group", "audit", "--expires-in", "90d",
    )  # fmt: skip
    assert created.status == 0, created.err
    key = created.out.strip()
    assert KEY.fullmatch(key)
    key_id = key.split("_")[1]
    assert f"key {key_id}, shown this once" in created.err

    (document,) = weft("keys", "list", "--data", tmp_path, "--json").document
    assert document.pop("created") < document.pop("expires")
    assert document == {
        "id": key_id,
        "name": "billing",
        "publish": ["orders.>", "a.b"],
        "subscribe": ["orders.paid"],
        "groups": ["billing*", "audit"],
        "admin": False,
        "quota": {},
        "made_by": None,
        "by": None,
        "known_since": None,
    }
    listed = weft("keys", "list", "--data", tmp_path).out
    assert "orders.>, a.b" in listed and "billing*, audit" in listed
    assert key.rsplit("_", 1)[1] not in listed

    shown = weft("keys", "show", key_id, "--data", tmp_path).out
    assert "may subscribe to: orders.paid" in shown and "the node tells the mesh while it runs" in shown

    assert f"key {key_id} is revoked" in weft("keys", "revoke", key_id, "--data", tmp_path).err
    assert weft("keys", "list", "--data", tmp_path, "--json").document == []
    assert "no keys yet" in weft("keys", "list", "--data", tmp_path).err


def test_create_as_json(weft: Weft, tmp_path: Path) -> None:
    document = weft("keys", "create", "--data", tmp_path, "--name", "ops", "--admin", "--json").document
    assert KEY.fullmatch(document["key"])
    assert (document["admin"], document["expires"]) == (True, None)
    assert document["key"].startswith(f"weft_{document['id']}_")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "--name", "x"), "a key without rights is useless"),
        (("create", "--name", "x", "--publish", "a..b"), "token 2 is empty"),
        (("create", "--name", "x", "--admin", "--group", "a*b"), "not a right to groups"),
        (("create", "--name", "x", "--admin", "--expires-in", "soon"), "'soon' is not an age"),
        (("revoke", "k7"), "there is no key 'k7'"),
    ],
)
def test_mistakes_are_one_line(weft: Weft, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    outcome = weft("keys", *arguments, "--data", tmp_path)
    assert (outcome.status, outcome.out) == (1, "")
    assert words in " ".join(outcome.err.split())


def test_a_damaged_file_is_named(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "keys.json").touch(0o600)
    outcome = weft("keys", "list", "--data", tmp_path)
    assert outcome.status == 1
    assert "keys.json is damaged" in outcome.err
