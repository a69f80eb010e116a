"""``weft up``: run a node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def up(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="WEFT_CONFIG", help="weft.toml; flags override it.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The directory of the log.", show_default="weft-data")
    ] = None,
    node_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The node's name in the mesh.", show_default="made once and kept there"),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="For clients and peers.", show_default="127.0.0.1:7400")
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The address that others are told.", show_default="where it listens"),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="HOST:PORT", help="A node to dial; may be given again.", show_default=False),
    ] = None,
    admin: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="For console, metrics and health.", show_default="127.0.0.1:7480"),
    ] = None,
    ca_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve this node's CA, for others to enrol.", show_default="not served"),
    ] = None,
    ca: Annotated[
        str | None,
        typer.Option(metavar="https://HOST:PORT", help="The CA to enrol with.", show_default="one of its own"),
    ] = None,
    ca_fingerprint: Annotated[
        str | None, typer.Option(metavar="64HEX", help="Of that CA's root.", show_default="as the token says")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="-", help="To enrol (weft ca token): '-' reads the token from standard input.", show_default=False
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the token, readable only by its owner.", show_default=False),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Plain text, no keys; loopback addresses only.")] = False,
    log_level: Annotated[
        str | None, typer.Option(metavar="debug|info|warning|error", help="What is logged.", show_default="info")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="console|json", help="How it is logged.", show_default="console")
    ] = None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C. The node then finishes what is under way; a second signal ends it at once.

    Without options it makes certificates, a key, and a context for the other commands. Prints 'ready' once it serves.
    All settings: docs/configuration.md.
    """
    from weft.cli.secret_input import read_secret
    from weft.cli.up_work import serve
    from weft.limits import TOKEN_BYTES_MAX

    flags = {
        "node.data": data,
        "node.id": node_id,
        "listen.grpc": listen,
        "listen.advertise": advertise,
        "listen.admin": admin,
        "peers": peer or None,
        "listen.ca": ca_listen,
        "security.ca_url": ca,
        "security.ca_fingerprint": ca_fingerprint,
        "security.token": None if token is None else read_secret(token, TOKEN_BYTES_MAX + 1, "--token"),
        "security.token_file": token_file,
        "insecure": insecure or None,
        "log.level": log_level,
        "log.format": log_format,
    }
    serve(config, flags)
