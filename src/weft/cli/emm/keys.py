"""The options for keys in commands for devices. Secrets are never repeated in messages."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from weft.cli.secret_input import read_secret
from weft.cli.trust import KEY_CHARS_MAX
from weft.errors import UsageError
from weft.gateway.emm.identity import FRESH_BYTES, Identity, settle_identity
from weft.security import Secret
from weft.transport.addresses import Address


def identity_in(data: Path) -> Identity:
    """The identity that is stored there; it is made if there is none yet."""
    return settle_identity(data, secrets.token_bytes(FRESH_BYTES))


def parse_uuid(text: str, option: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{option} {text[:64]!r} is not a UUID") from None


def parse_secret(text: str, option: str) -> Secret[bytes]:
    """Hexadecimal digits, or ``-`` for standard input."""
    return Secret(parse_hex(read_secret(text, KEY_CHARS_MAX, option).reveal(), option))


def parse_hex(text: str, what: str) -> bytes:
    """The text itself is not repeated: it may be a secret."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(f"{what} is not in hexadecimal digits, two for each byte") from None


def run_until_interrupted(work: Callable[[], Awaitable[Any]]) -> Any:
    """Ctrl-C is how it ends, not an error: then it is None."""

    async def run() -> Any:
        return await work()

    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(run())
    return None


def place_for_answers(targets: Sequence[Address]) -> tuple[str, int]:
    """Where a command that calls these nodes listens for their answers: on loopback if they are on this machine."""
    loopback = all(target.is_loopback for target in targets)
    if any(":" in target.host for target in targets):
        return ("::1" if loopback else "::"), 0
    # Answers come from other machines, to an address that the system chooses: there is no better one to name.
    return ("127.0.0.1" if loopback else "0.0.0.0"), 0  # noqa: S104  for answers, see above
