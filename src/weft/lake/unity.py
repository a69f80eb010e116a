"""Where a Delta table of a Unity catalog lies. The catalog is asked for the path once. From then on everybody,
executors included, opens the table by its path.

The address of the catalog and the key are in the environment, under the names that Databricks' own tools have for them.
The catalog could lend credentials for the store, but they are not used: the user's own are, as for every other table.
"""

from __future__ import annotations

from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from weft.lake.address import TableError
from weft.limits import MIB

HOST: Final = "DATABRICKS_HOST"
TOKEN: Final = "DATABRICKS_TOKEN"  # noqa: S105  the variable's name
TABLES: Final = "/api/2.1/unity-catalog/tables/"
UNITY_TIMEOUT_S: Final = 10.0  # before Spark starts: people are waiting
UNITY_ANSWER_BYTES_MAX: Final = 4 * MIB  # a table of ten thousand columns
OK, NOT_FOUND = 200, 404
REFUSED: Final = (401, 403)


class Answer(msgspec.Struct):
    """The part of the catalog's answer that is read."""

    storage_location: str | None = None
    data_source_format: str | None = None


def location(name: str, environ: Mapping[str, str]) -> str:
    """Where the Delta table ``catalog.schema.table`` lies; TableError if that cannot be known."""
    connection, base, headers = _connection(environ)
    try:
        connection.request("GET", f"{base}{TABLES}{quote(name)}", headers=headers)
        answer = connection.getresponse()  # from this server only: redirections are not followed
        status, body = answer.status, answer.read(UNITY_ANSWER_BYTES_MAX + 1)
    except (OSError, HTTPException) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise TableError(f"the Unity catalog does not answer: {reason or type(error).__name__}", table=name) from None
    finally:
        connection.close()
    if status == NOT_FOUND:
        raise TableError(
            "the Unity catalog has no such table. Make it with its path first, then register it there with that "
            "location",
            table=name,
        )
    if status in REFUSED:
        raise TableError(f"the Unity catalog refuses the key in {TOKEN}", table=name, status=status)
    if status != OK or len(body) > UNITY_ANSWER_BYTES_MAX:
        raise TableError("the Unity catalog cannot be asked", table=name, status=status, bytes=len(body))
    return _location_untrusted(name, body)


def _location_untrusted(name: str, body: bytes) -> str:
    try:
        found = msgspec.json.decode(body, type=Answer)
    except msgspec.DecodeError:
        raise TableError("the Unity catalog answers with something else than a table", table=name) from None
    if (found.data_source_format or "").upper() != "DELTA":
        raise TableError("the Unity catalog has it in another format", table=name, format=found.data_source_format)
    if not found.storage_location:
        raise TableError("the Unity catalog does not say where the table lies", table=name)
    if found.storage_location.startswith("file:"):
        return unquote(urlsplit(found.storage_location).path)
    return found.storage_location


def _connection(environ: Mapping[str, str]) -> tuple[HTTPConnection, str, dict[str, str]]:
    """Prepare a connection; no request is sent yet. A key is sent over TLS only, except to this machine itself."""
    given = environ.get(HOST, "").strip()
    if not given:
        raise TableError(f"Delta tables by name need the address of their Unity catalog in the variable {HOST}")
    parts = urlsplit(given if "://" in given else f"https://{given}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or port == -1:
        raise TableError(f"{HOST} has to be https://HOST or https://HOST:PORT")  # not quoted: it may hold a key
    token = environ.get(TOKEN, "").strip()
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    if parts.scheme == "https":
        return HTTPSConnection(parts.hostname, port, timeout=UNITY_TIMEOUT_S), parts.path.rstrip("/"), headers
    if token and not _is_loopback(parts.hostname):
        raise TableError(f"{HOST} begins with http://, and the key in {TOKEN} is sent over https:// only")
    return HTTPConnection(parts.hostname, port, timeout=UNITY_TIMEOUT_S), parts.path.rstrip("/"), headers


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
