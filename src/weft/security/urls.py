"""The address of a CA: only ``https://host:port``."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

from weft.errors import UsageError
from weft.security.certificates import is_host

HTTPS_PORT: Final = 443
URL_CHARS_MAX: Final = 300  # a host name of 253, a port and a path


class CaUrl(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"https://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_url(text: str) -> CaUrl:
    """Raise UsageError unless this is ``https://host[:port]``."""
    url = _split(text)
    if url is None or url.path not in ("", "/"):
        raise UsageError(f"{text[:200]!r} is not the address of a CA: write https://HOST:PORT")
    return url.ca


def parse_audience(text: str) -> tuple[CaUrl, str] | None:
    """What a token's ``aud`` names: the CA, and the path of the call; None if it is neither."""
    url = _split(text)
    return None if url is None else (url.ca, url.path)


class _Split(NamedTuple):
    ca: CaUrl
    path: str


def _split(text: str) -> _Split | None:
    if len(text) > URL_CHARS_MAX:
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme != "https" or not host or not is_host(host) or parts.username is not None or parts.query:
        return None
    return _Split(CaUrl(host, HTTPS_PORT if port is None else port), parts.path)
