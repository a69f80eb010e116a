"""``weft up``: run a node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def up(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="WEFT_CONFIG", help="weft.toml; flags count more.", show_default=False),
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
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="HOST:PORT", help="A node to dial; may be given again.", show_default=False),
    ] = None,
    admin: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="For metrics and health.", show_default="127.0.0.1:7480"),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Plain text, no keys; loopback addresses only.")] = False,
    log_level: Annotated[
        str | None, typer.Option(metavar="debug|info|warning|error", help="What is logged.", show_default="info")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="console|json", help="How it is logged.", show_default="console")
    ] = None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C, which lets it finish what is under way; a second one ends it at once.

    Prints 'ready' once it serves. All settings: docs/configuration.md.
    """
    from weft.cli.serving import serve

    flags = {
        "node.data": data,
        "node.id": node_id,
        "listen.grpc": listen,
        "listen.admin": admin,
        "peers": peer or None,
        "insecure": insecure or None,
        "log.level": log_level,
        "log.format": log_format,
    }
    serve(config, flags)
