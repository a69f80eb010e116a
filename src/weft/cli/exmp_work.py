"""What ``weft exmp`` does."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec
import typer
from rich.markup import escape

from weft import exmp
from weft.cli.console import err
from weft.cli.options import INTERRUPTED, misused
from weft.cli.tables import print_json
from weft.contexts import chosen_context
from weft.exmp import JsonObject
from weft.transport.addresses import parse_address
from weft.visible import visible, visible_json

ASKED: Final = ("event", "ended")  # what a node asks subscribers


class Protection(NamedTuple):
    """How a connection is protected, and the API key to show on it."""

    is_tls: bool
    root: Path | None
    certificate: Path | None
    key: Path | None
    token: str | None

    @classmethod
    def of_context(cls, name: str) -> Self:
        context = chosen_context(name, os.environ)
        root, certificate, key = (
            None if each is None else Path(each)
            for each in (context.tls_root, context.tls_certificate, context.tls_key)
        )
        return cls(not context.insecure, root, certificate, key, context.token)

    def context(self) -> ssl.SSLContext | None:
        return exmp.client_context(self.root, self.certificate, self.key) if self.is_tls else None


def parse_data(text: str | None) -> JsonObject | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        misused(f'JSON must be an object, like \'{{"topic": "a"}}\': {error}')


# --- calling ---------------------------------------------------------------------------------------------------------


def call_once(address: str, op: str, data: JsonObject | None, protection: Protection, follow: bool, json: bool) -> None:
    """Print the answer; status 1 if it is a failure."""
    try:
        asyncio.run(_call(address, op, data, protection, follow, json))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except exmp.Failure as failure:
        if not json:
            raise
        document = {"status": "failure", "code": failure.code, "description": failure.description}
        print_json(document if failure.data is None else {**document, "data": failure.data})
        raise SystemExit(1) from None


async def _call(
    address: str, op: str, data: JsonObject | None, protection: Protection, follow: bool, json: bool
) -> None:
    async def authenticate(peer: exmp.Peer) -> None:
        if protection.token is not None:
            await peer.call("authenticate", {"key": protection.token})

    async def ask_again(peer: exmp.Peer) -> None:
        await authenticate(peer)
        _print_answer(await peer.call(op, data), json)

    async with exmp.connect(
        address,
        tls=protection.context(),
        handlers={op: _print_asked(op, json) for op in ASKED} if follow else {},
        on_connected=ask_again if follow else authenticate,
        connect_timeout_s=0.0,  # a person sees that nobody is there, and starts it
    ) as client:
        if follow:
            await asyncio.Event().wait()
        _print_answer(await client.call(op, data), json)


def _print_answer(data: JsonObject | None, json: bool) -> None:
    if json:
        print_json({"status": "success"} if data is None else {"status": "success", "data": data})
    elif data is not None:
        typer.echo(visible_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()))


def _print_asked(op: str, json: bool) -> exmp.Handler:
    async def answer(data: JsonObject) -> None:
        asked = {"op": op, "data": data}
        if json:
            print_json(asked)
        else:
            typer.echo(visible_json(msgspec.json.encode(asked).decode()))

    return answer


# --- serving ---------------------------------------------------------------------------------------------------------


def serve_echo(listen: str, identity: Path | None, json: bool) -> None:
    """Until Ctrl-C."""
    try:
        asyncio.run(_serve(listen, identity, json))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


async def _serve(listen: str, identity: Path | None, json: bool) -> None:
    async def echo(data: JsonObject) -> JsonObject:
        return data

    def show(peer: exmp.Peer, op: str, data: JsonObject | None) -> None:
        if json:
            print_json({"peer": peer.address, "op": op, "data": data})
        else:
            typer.echo(shown_request(peer.address, op, data))

    tls = None if identity is None else exmp.server_context(identity)
    async with exmp.serve({"$echo": echo}, *parse_address(listen), tls=tls, on_request=show) as server:
        err.print(escape(f"serving $echo at {server.address}; Ctrl-C ends it"), style="dim")
        await server.wait_closed()


def shown_request(address: str, op: str, data: JsonObject | None) -> str:
    """In one line."""
    text = "" if data is None else msgspec.json.encode(data).decode()
    return visible(f"{address} {op} {text}".rstrip())
