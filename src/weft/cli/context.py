"""``weft context``: remember where to connect and as whom."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from weft.cli.console import err, out
from weft.cli.options import Insecure, Json, misused
from weft.cli.secret_input import read_secret
from weft.cli.tables import print_json, print_table
from weft.contexts import Context, contexts_path, read_contexts, write_contexts
from weft.errors import UsageError
from weft.limits import API_KEY_CHARS_MAX

app = typer.Typer(help="Remember addresses, certificates and keys.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
Pem = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False, show_default=False)]

HIDDEN = "***"


@app.command()
def add(
    name: Name,
    node: Annotated[list[str], typer.Option("--node", metavar="HOST:PORT", help="May be given again.")],
    insecure: Insecure = False,
    token: Annotated[
        str | None, typer.Option(help="An API key; '-' reads it from standard input.", show_default=False)
    ] = None,
    tls_root: Pem = None,
    tls_certificate: Pem = None,
    tls_key: Pem = None,
    use: Annotated[bool, typer.Option("--use", help="Make it the current context.")] = False,
) -> None:
    """Add a context, or replace the one of that name. The first one becomes the current one."""
    if (tls_certificate is None) != (tls_key is None):
        misused("--tls-certificate and --tls-key go together")
    if insecure and tls_root is not None:
        misused("--insecure is plain text: it cannot be combined with --tls-root")
    from weft.client.options import parse_nodes

    path = contexts_path(os.environ)
    key = None if token is None else read_secret(token, API_KEY_CHARS_MAX, "--token").reveal()
    context = Context(
        parse_nodes(node), insecure, key, _absolute(tls_root), _absolute(tls_certificate), _absolute(tls_key)
    )
    contexts = read_contexts(path).added(name, context)
    write_contexts(path, contexts.using(name) if use else contexts)


@app.command("list")
@app.command("ls", hidden=True)
def list_all(json: Json = False) -> None:
    """List all contexts; the current one has a star."""
    contexts = read_contexts(contexts_path(os.environ))
    if json:
        print_json([_document(name, each, contexts.current) for name, each in sorted(contexts.contexts.items())])
    elif contexts.contexts:
        rows = [
            ("*" if name == contexts.current else "", name, ", ".join(each.nodes), _protection(each))
            for name, each in sorted(contexts.contexts.items())
        ]
        print_table(("", "name", "nodes", "connection"), rows, names=4)
    else:
        err.print("no contexts yet: weft context add NAME --node HOST:PORT")


@app.command()
def use(name: Name) -> None:
    """Make a context the current one: commands use it when they are told nothing else."""
    path = contexts_path(os.environ)
    write_contexts(path, read_contexts(path).using(name))


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default="the current one")] = None,
    json: Json = False,
) -> None:
    """Show a context. Its token is not printed."""
    contexts = read_contexts(contexts_path(os.environ))
    chosen = name or contexts.current
    if chosen is None:
        known = "use NAME" if contexts.contexts else "add NAME --node HOST:PORT"
        raise UsageError(f"there is no current context: weft context {known}")
    document = _document(chosen, contexts.get(chosen), contexts.current)
    if json:
        print_json(document)
        return
    for key, value in document.items():
        if value is not None:
            text = ", ".join(value) if isinstance(value, tuple) else str(value)
            out.print(f"{key}: {escape(text)}", soft_wrap=True)


@app.command()
def remove(name: Name) -> None:
    """Forget a context."""
    path = contexts_path(os.environ)
    write_contexts(path, read_contexts(path).removed(name))


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _protection(context: Context) -> str:
    return "plain text" if context.insecure else "TLS" if context.tls_root is not None else "no certificate"


def _document(name: str, context: Context, current: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "current": name == current,
        "nodes": context.nodes,
        "insecure": context.insecure,
        "token": None if context.token is None else HIDDEN,
        "tls_root": context.tls_root,
        "tls_certificate": context.tls_certificate,
        "tls_key": context.tls_key,
    }
