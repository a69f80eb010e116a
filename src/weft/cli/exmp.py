"""``weft exmp``: ask somebody who speaks EXMP, or be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import ContextName, Json, misused

app = typer.Typer(help="Call operations over EXMP, or serve some.", no_args_is_help=True)

Pem = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, show_default=False)]


@app.command()
def call(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="HOST:PORT, or HOST.", show_default=False)],
    op: Annotated[str, typer.Argument(metavar="OP", help="The operation, like publish.", show_default=False)],
    data: Annotated[
        str | None, typer.Argument(metavar="JSON", help="Its data, a JSON object.", show_default=False)
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="TLS with the root certificates of this machine.")] = False,
    tls_root: Pem = None,
    tls_certificate: Pem = None,
    tls_key: Pem = None,
    context: ContextName = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Stay connected, print the requests of the other side, and answer them.")
    ] = False,
    json: Json = False,
) -> None:
    """Call an operation and print the answer. With --context, it first authenticates with the context's certificates
    and API key.
    """
    from weft.cli.exmp_work import Protection, call_once, parse_data

    if tls_key is not None and tls_certificate is None:
        misused("--tls-key goes with --tls-certificate")
    if tls_certificate is not None and tls_root is None and not tls:
        misused("--tls-certificate is for TLS: add --tls-root FILE, or --tls")
    protection = Protection(tls or tls_root is not None, tls_root, tls_certificate, tls_key, None)
    if context is not None:
        if protection.is_tls:
            misused("--context has its own certificates: leave out the --tls options")
        protection = Protection.of_context(context)
    call_once(address, op, parse_data(data), protection, follow, json)


@app.command()
def serve(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where.")] = "127.0.0.1:5040",
    tls_identity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Key and certificates, for TLS.", show_default=False
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Answer $echo and print every request: something to try a client against."""
    from weft.cli.exmp_work import serve_echo

    serve_echo(listen, tls_identity, json)
