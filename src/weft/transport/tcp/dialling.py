"""Dialling a link to another side."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from weft.errors import PeerError
from weft.transport.tcp.link import ExmpConnection, LinkUser
from weft.wire.exmp import Settings


class Unreachable(PeerError):
    """Nobody answers there, or not correctly. Nothing was sent."""


async def dial(
    host: str,
    port: int,
    settings: Settings,
    make_user: Callable[[ExmpConnection], LinkUser],
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
) -> ExmpConnection:
    """Return a link whose handshake is under way, within ``handshake_timeout_s``; raise only Unreachable.

    ``server_name`` has to be in the certificate of the other side, if not ``host``.
    """
    where = f"{host} port {port}"
    try:
        async with asyncio.timeout(settings.handshake_timeout_s):
            _, link = await asyncio.get_running_loop().create_connection(
                lambda: ExmpConnection(settings, make_user),
                host,
                port,
                ssl=tls,
                server_hostname=None if tls is None else server_name or host,
            )
    except TimeoutError:
        raise Unreachable(f"no answer from {where}", seconds=settings.handshake_timeout_s) from None
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(f"the certificate of {where} is not valid: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Unreachable(f"no TLS with {where}: {(error.reason or 'no reason given').lower()}") from None
    except OSError as error:
        raise Unreachable(f"cannot connect to {where}: {error.strerror or error}") from None
    return link
