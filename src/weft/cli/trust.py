"""``weft trust``: keys of devices that speak EMM and EMM-C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from weft.cli.console import err
from weft.cli.options import Json, misused
from weft.cli.secret_input import read_secret
from weft.cli.tables import print_json, print_table
from weft.errors import UsageError
from weft.security.secret import Secret
from weft.security.trust_file import (
    KEY_ID_BYTES,
    DeviceKey,
    KeyKind,
    Trust,
    add_device,
    add_group,
    fingerprint,
    read_trust,
    remove_devices,
    remove_group,
)

app = typer.Typer(help="Which keys of EMM devices are trusted.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The node's data directory.", show_default=False)]
NodeIdText = Annotated[str | None, typer.Option("--node-id", metavar="UUID", help="The device.", show_default=False)]
KeyIdText = Annotated[
    str | None, typer.Option("--key-id", metavar="8HEX", help="Which of its keys.", show_default=False)
]

KEY_CHARS_MAX = 4096  # of HMAC keys; longer ones are hashed down to 64 bytes anyway


@app.command()
def add(
    data: Data,
    node_id: NodeIdText = None,
    key_id: KeyIdText = None,
    hmac_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="A shared secret; '-' reads it from standard input.")
    ] = None,
    public_key: Annotated[str | None, typer.Option(metavar="HEX", help="An Ed25519 public key.")] = None,
    group: Annotated[
        str | None, typer.Option(metavar="HEX", help="A group key of EMM-C; '-' reads it from standard input.")
    ] = None,
) -> None:
    """Trust a key: of a device (--node-id, --key-id and one of --hmac-key, --public-key), or of the group (--group).

    A running node uses it within two seconds. A key of the same device, id and kind is replaced.
    """
    if sum(each is not None for each in (hmac_key, public_key, group)) != 1:
        misused("give one of --hmac-key, --public-key and --group")
    if group is not None:
        if node_id is not None or key_id is not None:
            misused("a group key belongs to no device: leave --node-id and --key-id out")
        add_group(data, _secret(group, "--group"))
        return
    if node_id is None or key_id is None:
        misused("a device's key needs --node-id and --key-id")
    if hmac_key is not None:
        kind, key = KeyKind.HMAC, _secret(hmac_key, "--hmac-key")
    else:
        assert public_key is not None, "one of the three is given"
        kind, key = KeyKind.ED25519, _secret(public_key, "--public-key")
    add_device(data, DeviceKey(_node_id(node_id), _key_id(key_id), kind, key))


@app.command("list")
def list_all(data: Data, json: Json = False) -> None:
    """List what is trusted. Keys are not printed, only fingerprints: the first 4 bytes of their SHA-256."""
    trust = read_trust(data)
    if json:
        print_json(_document(trust))
        return
    rows = [(str(each.node_id), each.key_id.hex(), each.kind.value, fingerprint(each.key)) for each in trust.devices]
    rows += [("", "", "group", fingerprint(each)) for each in trust.groups]
    if rows:
        print_table(("node id", "key id", "kind", "fingerprint"), rows, names=4)
    else:
        err.print("no keys yet: weft trust add")


@app.command()
def remove(
    data: Data,
    node_id: NodeIdText = None,
    key_id: KeyIdText = None,
    group: Annotated[
        str | None, typer.Option(metavar="FINGERPRINT", help="A group key, as weft trust list shows it.")
    ] = None,
) -> None:
    """Trust a key no more: one of a device, all of a device (without --key-id), or one of the group."""
    if (node_id is None) == (group is None):
        misused("give either --node-id or --group")
    if group is not None:
        remove_group(data, group)
        return
    assert node_id is not None, "one of the two is given"
    gone = remove_devices(data, _node_id(node_id), None if key_id is None else _key_id(key_id))
    err.print(f"{gone} removed")


def _document(trust: Trust) -> dict[str, Any]:
    return {
        "devices": [
            {
                "node_id": str(each.node_id),
                "key_id": each.key_id.hex(),
                "kind": each.kind,
                "fingerprint": fingerprint(each.key),
            }
            for each in trust.devices
        ],
        "groups": [fingerprint(each) for each in trust.groups],
    }


def _node_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"--node-id {text[:64]!r} is not a UUID") from None


def _key_id(text: str) -> bytes:
    found = _hex(text)
    if found is None or len(found) != KEY_ID_BYTES:
        raise UsageError(f"--key-id {text[:64]!r} is not {2 * KEY_ID_BYTES} hexadecimal digits")
    return found


def _secret(text: str, option: str) -> Secret[bytes]:
    """The text itself is not repeated in errors."""
    found = _hex(read_secret(text, KEY_CHARS_MAX).reveal())
    if not found:
        raise UsageError(f"{option} is not a key in hexadecimal digits")
    return Secret(found)


def _hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
