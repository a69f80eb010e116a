"""``weft emm compact``: join EMM-C nodes, send notifications and commands to them, watch what they send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Json, Quic, QuicCertificate, QuicKey, QuicRoot

app = typer.Typer(help="The same for nodes that speak EMM-C, the format with 8 bytes of header.", no_args_is_help=True)

Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where to send it.", show_default=False)]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="A data directory: sign with its identity (emm.json) and the group keys in its trust store (trust.json).",
        show_default=False,
    ),
]
Home = Annotated[
    Path,
    typer.Option("--data", metavar="DIR", help="The data directory with identity and trust store.", show_default=False),
]
PriorityName = Annotated[
    str, typer.Option("--priority", metavar="NAME", help="trace, debug, info, notice, warning, error or critical.")
]
Urgent = Annotated[bool, typer.Option("--urgent", help="Mark it as urgent.")]
AsHex = Annotated[bool, typer.Option("--hex", help="Read it as hexadecimal digits.")]
Ttl = Annotated[
    int | None,
    typer.Option(
        "--ttl", metavar="N", help="The largest number of hops; without it, 64.", min=1, max=255, show_default=False
    ),
]


@app.command()
def join(
    addresses: Annotated[list[str], typer.Argument(metavar="HOST:PORT...", help="Nodes to ask.", show_default=False)],
    data: Home,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait.", min=0.0)] = 5.0,
    quic: Quic = False,
    root: QuicRoot = None,
    json: Json = False,
) -> None:
    """Ask nodes for a relationship, and show what those that answer say about themselves. Both sides must know each
    other's key and a group key. The relationship ends a few seconds later.
    """
    from weft.cli.emm.compact_work import join_nodes
    from weft.cli.emm.quic import Calling

    join_nodes(addresses, data, timeout, Calling(quic, root), json)


@app.command()
def send(
    address: Address,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="What to say.", show_default=False)],
    data: Data = None,
    group_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="The group key; '-' reads it from standard input.", show_default=False),
    ] = None,
    priority: PriorityName = "info",
    message_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="plain-text, json, xml, binary, yaml, protobuf, msgpack, cbor, avro or thrift. Without it, "
            "plain-text, or binary with --hex.",
            show_default=False,
        ),
    ] = None,
    as_hex: AsHex = False,
    urgent: Urgent = False,
    ttl: Ttl = None,
    quic: Quic = False,
    root: QuicRoot = None,
    json: Json = False,
) -> None:
    """Send one notification, signed with the group key. Nodes that receive it pass it on."""
    from weft.cli.emm.compact_work import Sending, send_notification
    from weft.cli.emm.quic import Calling

    sending = Sending(address, urgent, ttl, Calling(quic, root), json)
    send_notification(sending, message, as_hex, priority, message_format, data, group_key)


@app.command()
def command(
    address: Address,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the command.", show_default=False)],
    parameters: Annotated[
        str, typer.Argument(metavar="PARAMETERS", help="The command's parameters.", show_default=False)
    ] = "",
    data: Data = None,
    node_id: Annotated[
        str | None, typer.Option("--node-id", metavar="UUID", help="Send as this node.", show_default=False)
    ] = None,
    signing_key: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Its Ed25519 seed; '-' reads it from standard input.", show_default=False),
    ] = None,
    as_hex: AsHex = False,
    expires: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS", help="Seconds after which no node carries it out.", min=0, max=255, show_default=False
        ),
    ] = None,
    trace_id: Annotated[
        str | None, typer.Option("--trace-id", metavar="UUID", help="To find it again.", show_default=False)
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", metavar="NAME", help="As of notifications.", show_default=False)
    ] = None,
    compress: Annotated[bool, typer.Option("--compress", help="Compress it if that makes it smaller.")] = False,
    urgent: Urgent = False,
    ttl: Ttl = None,
    quic: Quic = False,
    root: QuicRoot = None,
    json: Json = False,
) -> None:
    """Send one command, signed with a node's own key. Nodes that receive it pass it on and may obey. There is no
    answer.
    """
    from weft.cli.emm.compact_work import Order, Sending, send_command
    from weft.cli.emm.quic import Calling

    sending = Sending(address, urgent, ttl, Calling(quic, root), json)
    order = Order(name, parameters, as_hex, expires, trace_id, priority, compress)
    send_command(sending, order, data, node_id, signing_key)


@app.command()
def listen(
    data: Home,
    address: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where.")] = "127.0.0.1:4700",
    join: Annotated[
        list[str] | None,
        typer.Option("--join", metavar="HOST:PORT", help="Join this node; may be repeated.", show_default=False),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after this many events.", min=1, show_default=False)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop after so long.", min=0.0, show_default=False)
    ] = None,
    quic: Quic = False,
    root: QuicRoot = None,
    certificate: QuicCertificate = None,
    key: QuicKey = None,
    json: Json = False,
) -> None:
    """Run as a node until Ctrl-C, and show notifications, commands, and what is refused and why. It answers joins and
    passes events on, as every node does, but obeys no command. With --quic it uses only QUIC, for --join as well, and
    presents the certificate of the node in --data.
    """
    from weft.cli.emm.compact_work import Place, Watch, watch_events
    from weft.cli.emm.quic import Calling, Listening

    place = Place(address, join or [], Listening(quic, certificate, key), Calling(quic, root))
    watch_events(place, data, Watch(count, timeout, json))
