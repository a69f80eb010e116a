"""``weft emm``: send an event as a device would, watch what devices send, see who is there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.emm import compact
from weft.cli.options import Json, Quic, QuicCertificate, QuicKey, QuicRoot, misused
from weft.limits import EMM_PACKET_BYTES_MAX

app = typer.Typer(help="Send, watch and find devices that speak EMM.", no_args_is_help=True)
app.add_typer(compact.app, name="compact")

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="A data directory: sign with its identity (emm.json), accept the keys in its trust store (trust.json).",
        show_default=False,
    ),
]
PacketBytes = Annotated[
    int,
    typer.Option("--packet-bytes-max", metavar="BYTES", help="The largest packet.", min=128, max=65_507),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", metavar="interop-v1", help="Require the fields of a profile.", show_default=False),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.", min=0.0)]


@app.command()
def send(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where to send it.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The event's name, like plant.temp.", show_default=False)],
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE",
            help="A number, a JSON object, or else text. Put negative numbers behind --.",
            show_default=False,
        ),
    ] = None,
    data: Data = None,
    node_id: Annotated[
        str | None, typer.Option("--node-id", metavar="UUID", help="Send as this device.", show_default=False)
    ] = None,
    key_id: Annotated[
        str | None, typer.Option("--key-id", metavar="8HEX", help="The id of the key to sign with.", show_default=False)
    ] = None,
    hmac_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Its shared secret; '-' reads it from standard input.", show_default=False),
    ] = None,
    signing_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Its Ed25519 seed; '-' reads it from standard input.", show_default=False),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Send the value as text, even if it looks like a number.")
    ] = False,
    as_hex: Annotated[bool, typer.Option("--hex", help="Read the value as bytes in hexadecimal digits.")] = False,
    urgent: Annotated[bool, typer.Option("--urgent", help="Mark it as urgent.")] = False,
    compress: Annotated[bool, typer.Option("--compress", help="Compress the event if that makes it smaller.")] = False,
    seal: Annotated[
        str | None,
        typer.Option("--seal", metavar="32HEX", help="Encrypt the event with the key of this id.", show_default=False),
    ] = None,
    encryption_key: Annotated[
        str | None,
        typer.Option(
            metavar="HEX",
            help="That key, if the trust store in --data does not have it; '-' reads it from standard input.",
            show_default=False,
        ),
    ] = None,
    packet_bytes_max: PacketBytes = EMM_PACKET_BYTES_MAX,
    profile: ProfileName = None,
    quic: Quic = False,
    root: QuicRoot = None,
    json: Json = False,
) -> None:
    """Send one signed event.

    Signed with the identity in --data, or with the key of a device (--node-id, --key-id, and --hmac-key or
    --signing-key). Datagrams are not acknowledged: only the receiver knows whether it took this one. With --quic, the
    certificate of the node at HOST must contain that name.
    """
    from weft.cli.emm.quic import Calling
    from weft.cli.emm.work import Making, Signature, parse_value, send_event

    if text and as_hex:
        misused("a value is --text or --hex, not both")
    signature = Signature(data, node_id, key_id, hmac_key, signing_key)
    making = Making(urgent, compress, seal, encryption_key, packet_bytes_max, profile)
    values = parse_value(value, text=text, as_hex=as_hex)
    send_event(address, name, values, signature, making, Calling(quic, root), json)


@app.command()
def listen(
    address: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where.")] = "127.0.0.1:4700",
    data: Data = None,
    unsigned: Annotated[bool, typer.Option("--unsigned", help="Also show unsigned events.")] = False,
    sealed: Annotated[
        list[str] | None,
        typer.Option(
            "--sealed",
            metavar="PATTERN",
            help="Refuse events of these names in the clear; may be repeated.",
            show_default=False,
        ),
    ] = None,
    packet_bytes_max: PacketBytes = EMM_PACKET_BYTES_MAX,
    profile: ProfileName = None,
    quic: Quic = False,
    certificate: QuicCertificate = None,
    key: QuicKey = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after this many events.", min=1, show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after so long.", min=0.0, show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Watch EMM events until Ctrl-C, and how each is judged: verified, unsigned, or refused and why.

    Answers devices that say Hello. For events that a node takes, use weft sub 'emm.>'. With --quic it listens for QUIC
    only, and presents the certificate of the node in --data.
    """
    from weft.cli.emm.quic import Listening
    from weft.cli.emm.work import Watch, watch_events

    watch = Watch(unsigned, count, timeout, json, tuple(sealed or ()), packet_bytes_max, profile)
    watch_events(address, data, watch, Listening(quic, certificate, key))


@app.command()
def peers(
    addresses: Annotated[list[str], typer.Argument(metavar="HOST:PORT...", help="Nodes to ask.", show_default=False)],
    data: Data = None,
    timeout: Timeout = 3.0,
    quic: Quic = False,
    root: QuicRoot = None,
    json: Json = False,
) -> None:
    """Say Hello and list who answers. Both sides must trust each other's identity (--data)."""
    from weft.cli.emm.quic import Calling
    from weft.cli.emm.work import find_peers

    if data is None:
        misused("--data DIR is missing: it holds the identity that says Hello")
    find_peers(addresses, data, timeout, Calling(quic, root), json)


@app.command()
def identity(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The data directory.", show_default=False)],
    prepare_key: Annotated[
        bool, typer.Option("--prepare-key", help="Make the next key, if there is none yet, and show it instead.")
    ] = False,
    use_next_key: Annotated[
        bool, typer.Option("--use-next-key", help="Sign with the next key from now on; a running node does so, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a node's identity, for the trust stores of devices. One is made if the node has none.

    To replace its key: --prepare-key, let others trust what it shows, then --use-next-key.
    """
    from weft.cli.emm.work import show_identity

    if prepare_key and use_next_key:
        misused("others must trust the next key before it is used: --prepare-key first, --use-next-key later")
    show_identity(data, json, prepare_key=prepare_key, use_next_key=use_next_key)
