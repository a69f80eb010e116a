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
from weft.model import Pattern, parse_pattern
from weft.security.secret import Secret
from weft.security.trust_file import (
    KEY_ID_BYTES,
    SEAL_ID_BYTES,
    DeviceKey,
    DeviceNames,
    KeyKind,
    SealKey,
    Trust,
    add_device,
    add_group,
    add_seal,
    fingerprint,
    read_trust,
    remove_devices,
    remove_group,
    remove_seal,
    set_names,
)

app = typer.Typer(help="Which keys of EMM devices are trusted.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", metavar="DIR", help="The node's data directory.", show_default=False)]
NodeIdText = Annotated[str | None, typer.Option("--node-id", metavar="UUID", help="The device.", show_default=False)]
KeyIdText = Annotated[
    str | None, typer.Option("--key-id", metavar="8HEX", help="Which of its keys.", show_default=False)
]

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--names", metavar="PATTERN", help="Names that its events may have; may be repeated.", show_default=False
    ),
]

KEY_CHARS_MAX = 4096  # of HMAC keys; longer ones are hashed down to 64 bytes anyway
ALL = Pattern(">")  # every name: of devices that no patterns were given for


@app.command()
def add(
    data: Data,
    node_id: NodeIdText = None,
    key_id: KeyIdText = None,
    hmac_key: Annotated[
        str | None, typer.Option(metavar="HEX", help="A shared secret; '-' reads it from standard input.")
    ] = None,
    public_key: Annotated[str | None, typer.Option(metavar="HEX", help="An Ed25519 public key.")] = None,
    encryption_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="A key of 32 bytes for encrypted payloads; '-' reads it from standard input."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="HEX", help="A group key of EMM-C; '-' reads it from standard input.")
    ] = None,
    names: Names = None,
    believe_only: Annotated[
        bool, typer.Option("--believe-only", help="Do not sign with the group key yet: add it again for that.")
    ] = False,
) -> None:
    """Trust a key: of a device (--node-id, --key-id and one of --hmac-key, --public-key), or of the group (--group).

    A key to encrypt with (--encryption-key) has an id of 32 hexadecimal digits (--key-id), or that of a device
    (--node-id). A running node uses keys within two seconds. A key of the same device, id and kind is replaced.

    --names says which names events of the device may have, whatever key it uses. Without it, the names stay as they
    are; a new device may use every name.
    """
    if sum(each is not None for each in (hmac_key, public_key, encryption_key, group)) != 1:
        misused("give one of --hmac-key, --public-key, --encryption-key and --group")
    if believe_only and group is None:
        misused("--believe-only is for group keys: no other key here signs")
    if names and hmac_key is None and public_key is None:
        misused("--names goes with a device's key: --hmac-key or --public-key")
    if group is not None:
        if node_id is not None or key_id is not None:
            misused("a group key belongs to no device: leave out --node-id and --key-id")
        add_group(data, _secret(group, "--group"), signs=not believe_only)
        return
    if encryption_key is not None:
        if (node_id is None) == (key_id is None):
            misused("an encryption key has an id of its own (--key-id 32HEX) or a device's (--node-id): give one")
        named = _seal_id(key_id) if key_id is not None else _node_id(node_id or "").bytes
        add_seal(data, SealKey(named, _secret(encryption_key, "--encryption-key")))
        return
    if node_id is None or key_id is None:
        misused("a device's key needs --node-id and --key-id")
    if hmac_key is not None:
        kind, key = KeyKind.HMAC, _secret(hmac_key, "--hmac-key")
    else:
        assert public_key is not None, "one of the four is given"
        kind, key = KeyKind.ED25519, _secret(public_key, "--public-key")
    add_device(data, DeviceKey(_node_id(node_id), _key_id(key_id), kind, key), _patterns(names))


@app.command()
def allow(
    data: Data,
    node_id: Annotated[str, typer.Option("--node-id", metavar="UUID", help="The device.", show_default=False)],
    names: Names = None,
) -> None:
    """Say which names events of a device may have: those that fit one of the patterns. '>' is every name.

    The device has a key already, also one that was pinned when it was first seen. A running node follows within two
    seconds, and refuses other names (name).
    """
    if not names:
        misused("give --names PATTERN")
    set_names(data, DeviceNames(_node_id(node_id), _patterns(names)))


@app.command("list")
@app.command("ls", hidden=True)
def list_all(data: Data, json: Json = False) -> None:
    """List what is trusted. Keys are not printed, only fingerprints: the first 4 bytes of their SHA-256.

    Keys of the kind first-use were pinned by the gateway when a device was first seen.
    """
    trust = read_trust(data)
    if json:
        print_json(_document(trust))
        return
    allowed = {each.node_id: " ".join(each.patterns) for each in trust.names}
    rows = [
        (str(each.node_id), each.key_id.hex(), each.kind.value, fingerprint(each.key), allowed.get(each.node_id, ALL))
        for each in trust.devices
    ]
    rows += [
        (str(each.node_id), "", "first-use", fingerprint(Secret(each.public_key)), allowed.get(each.node_id, ALL))
        for each in trust.pins
    ]
    rows += [("", each.key_id.hex(), "encryption", fingerprint(each.key), "") for each in trust.seals]
    rows += [("", "", "group", fingerprint(each), "") for each in trust.groups]
    if rows:
        print_table(("node id", "key id", "kind", "fingerprint", "names"), rows, names=5)
    else:
        err.print("no keys yet: weft trust add")


@app.command()
def remove(
    data: Data,
    node_id: NodeIdText = None,
    key_id: KeyIdText = None,
    encryption_key: Annotated[str | None, typer.Option(metavar="32HEX", help="The id of an encryption key.")] = None,
    group: Annotated[
        str | None, typer.Option(metavar="FINGERPRINT", help="A group key, as weft trust list shows it.")
    ] = None,
) -> None:
    """Stop trusting a key: one of a device, all of a device (without --key-id), or one of the group.

    All of a device includes the key that was pinned when it was first seen: with the policy first-use, the next key
    that it shows counts as its first.
    """
    if sum(each is not None for each in (node_id, encryption_key, group)) != 1:
        misused("give one of --node-id, --encryption-key and --group")
    if group is not None:
        remove_group(data, group)
        return
    if encryption_key is not None:
        remove_seal(data, _seal_id(encryption_key))
        return
    assert node_id is not None, "one of the three is given"
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
        "first_use": [
            {"node_id": str(each.node_id), "fingerprint": fingerprint(Secret(each.public_key))} for each in trust.pins
        ],
        "encryption": [{"key_id": each.key_id.hex(), "fingerprint": fingerprint(each.key)} for each in trust.seals],
        "groups": [fingerprint(each) for each in trust.groups],
        "names": [{"node_id": str(each.node_id), "patterns": list(each.patterns)} for each in trust.names],
    }


def _patterns(texts: list[str] | None) -> tuple[Pattern, ...]:
    return tuple(map(parse_pattern, texts or ()))


def _seal_id(text: str) -> bytes:
    found = _hex(text)
    if found is None or len(found) != SEAL_ID_BYTES:
        raise UsageError(f"the id of an encryption key is {2 * SEAL_ID_BYTES} hexadecimal digits, not {text[:64]!r}")
    return found


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
    found = _hex(read_secret(text, KEY_CHARS_MAX, option).reveal())
    if not found:
        raise UsageError(f"{option} is not a key in hexadecimal digits")
    return Secret(found)


def _hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
