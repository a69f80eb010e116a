"""What ``weft request`` and ``weft serve`` do."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err
from weft.cli.events import text_or_base64
from weft.cli.options import Where, misused
from weft.cli.pub_work import Template
from weft.cli.tables import print_json
from weft.client import Client, Reply, Request
from weft.errors import UsageError
from weft.limits import MIB
from weft.visible import visible

OUTPUT_BYTES_MAX: Final = 64 * MIB  # of one command: a reply holds one, and replies by the line may be many
REASON_CHARS_MAX: Final = 500  # of the last words of a failed command


# --- asking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asking:
    """What is asked. ``timeout_s``: for one reply, ``total_s``: for all."""

    template: Template
    payload: bytes
    many: bool
    timeout_s: float
    total_s: float
    attempts: int
    durable: bool
    json: bool


def ask(where: Where, wanted: Asking) -> None:
    with_client(where, lambda client: _ask(client, wanted))


async def _ask(client: Client, wanted: Asking) -> None:
    topic, headers = wanted.template.topic, wanted.template.headers
    if not wanted.many:
        reply = await client.request(
            topic,
            wanted.payload,
            timeout_s=wanted.timeout_s,
            headers=headers,
            durable=wanted.durable,
            attempts=wanted.attempts,
        )
        _print(reply, wanted.json)
        return
    replies = client.request_many(
        topic,
        wanted.payload,
        timeout_s=wanted.timeout_s,
        total_timeout_s=wanted.total_s,
        headers=headers,
        durable=wanted.durable,
    )
    async for reply in replies:
        _print(reply, wanted.json)


def _print(reply: Reply, json: bool) -> None:
    """The exact bytes into a pipe or file; visible text to a terminal."""
    if json:
        document: dict[str, Any] = {"headers": dict(reply.headers), **text_or_base64("payload", reply.payload)}
        print_json({**document, "event": reply.event or None})
    elif sys.stdout.isatty():
        sys.stdout.write(visible(reply.payload.decode(errors="replace")) + "\n")
    else:
        sys.stdout.buffer.write(reply.payload + (b"" if reply.payload.endswith(b"\n") else b"\n"))
    sys.stdout.flush()


# --- serving ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Serving:
    """Which requests, and what answers them."""

    pattern: str
    command: str
    concurrency: int
    lines: bool
    count: int | None
    json: bool


def serve_command(where: Where, wanted: Serving) -> None:
    try:
        words = shlex.split(wanted.command)
    except ValueError as error:
        misused(f"--command cannot be read: {error}")
    if not words:
        misused("--command is empty")
    with_client(where, lambda client: _CommandServer(wanted, words).run(client))


class _CommandServer:
    def __init__(self, wanted: Serving, words: list[str]) -> None:
        self._wanted = wanted
        self._words = words
        self._handled = 0
        self._enough = asyncio.Event()

    async def run(self, client: Client) -> None:
        wanted = self._wanted
        async with client.serve(wanted.pattern, self._handle, concurrency=wanted.concurrency) as server:
            err.print(f"serving {escape(wanted.pattern)}", style="dim")
            ends = [asyncio.create_task(self._enough.wait()), asyncio.create_task(server.wait())]
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in ends:
                task.cancel()
            for task in done:
                task.result()

    async def _handle(self, request: Request) -> AsyncIterator[bytes] | bytes:
        try:
            output = await self._output(request)
        except Exception as error:
            self._tell(request, str(error))
            raise
        self._tell(request, "")
        return _lines(output) if self._wanted.lines else output.removesuffix(b"\n")

    async def _output(self, request: Request) -> bytes:
        environ = {**os.environ, "WEFT_TOPIC": request.topic}
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words, stdin=pipe, stdout=pipe, stderr=pipe, env=environ
            )
        except OSError as error:
            raise UsageError(f"{self._words[0]} cannot be run: {error.strerror}") from None
        try:
            output, said = await process.communicate(request.payload)
        finally:
            if process.returncode is None:  # nobody waits for the reply any longer
                process.kill()
                await process.wait()
        if len(output) > OUTPUT_BYTES_MAX:
            raise UsageError("the command printed too much", have=len(output), limit=OUTPUT_BYTES_MAX)
        if process.returncode:
            last = said.decode(errors="replace").strip().rpartition("\n")[2][:REASON_CHARS_MAX]
            raise UsageError(f"the command ended with status {process.returncode}" + (f": {last}" if last else ""))
        return output

    def _tell(self, request: Request, failure: str) -> None:
        if self._wanted.json:
            print_json({"topic": request.topic, "bytes": len(request.payload), "failure": failure or None})
        else:
            sys.stdout.write(visible(f"{request.topic}  {failure or 'answered'}") + "\n")
        sys.stdout.flush()
        self._handled += 1
        if self._handled == self._wanted.count:
            self._enough.set()


async def _lines(output: bytes) -> AsyncIterator[bytes]:
    for line in output.splitlines():
        yield line
