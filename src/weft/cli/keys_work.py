"""What ``weft keys`` does: with a node, or with the files in a node's directory."""

from __future__ import annotations

import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from rich.markup import escape

from weft.cli.connection import with_client
from weft.cli.console import err
from weft.cli.mesh_work import print_facts
from weft.cli.options import Where, misused
from weft.cli.secret_input import hide_argument
from weft.cli.tables import human_time, print_json, print_table
from weft.client import NewKey
from weft.errors import UsageError
from weft.model.key_info import KeyInfo
from weft.security import SALT_BYTES, SECRET_BYTES, KeyRequest, KeyStore, create_key, revoke_key
from weft.security.key_store import resolve
from weft.security.quota import parse_quota

US_PER_S = 1_000_000
WHOLE_KEY: Final = re.compile("weft_(k[0-9a-f]{16})_")


class WantedKey(NamedTuple):
    """A new key, in the words of the command line."""

    name: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    admin: bool
    expires_in: str | None
    quota: tuple[str, ...]
    groups: tuple[str, ...] = ()

    def request(self, now_s: float) -> KeyRequest:
        expires_s = None if self.expires_in is None else _end_s(self.expires_in, now_s)
        quota = parse_quota(self.quota)
        return KeyRequest(self.name, self.publish, self.subscribe, self.admin, expires_s, quota, self.groups)


def keys_of(data: Path | None, where: Where) -> KeyDesk:
    return NodeDesk(where) if data is None else FileDesk(data)


def _key_id(given: str) -> str:
    """The id as given. Refuses a whole key: a secret does not belong in a command line, a request or an error."""
    if (whole := WHOLE_KEY.match(given)) is not None:
        hide_argument(given)
        misused(f"that is a whole key, with its secret: give only its id, {whole[1]}")
    return given


class KeyDesk(ABC):
    """Where keys are made and revoked."""

    @abstractmethod
    def find(self, key: str = "") -> list[KeyInfo]: ...

    @abstractmethod
    def make(self, wanted: KeyRequest, now_s: float) -> NewKey: ...

    @abstractmethod
    def end(self, key: str) -> KeyInfo: ...

    def create(self, wanted: WantedKey, json: bool) -> None:
        now_s = time.time()
        request = wanted.request(now_s)
        others = [each.id for each in self.find() if each.name == wanted.name]
        made = self.make(request, now_s)
        if json:
            print_json({**_document(made.info), "key": made.key})
            return
        if others:
            err.print(f"{', '.join(others)} has this name too: keys of one name share what they own", soft_wrap=True)
        err.print(f"key {made.info.id}, shown this once:")
        typer.echo(made.key)

    def show_all(self, json: bool) -> None:
        found = sorted(self.find(), key=lambda each: (each.created_s, each.id))
        if json:
            print_json([_document(each) for each in found])
        elif found:
            rights = ("publish", "subscribe", "groups", "admin")
            headings = ("key", "name", *rights, "quota", "made by", "created", "expires")
            print_table(headings, [_row(each) for each in found], names=len(headings))
        else:
            err.print("no keys yet: weft keys create")

    def show(self, key: str, json: bool) -> None:
        found = self.find(_key_id(key))
        if not found:
            raise UsageError(f"there is no key {key[:90]!r} (weft keys list shows them)")
        if json:
            print_json([{**_document(each), **_use(each)} for each in found])
            return
        for each in found:
            print_facts(_facts(each))

    def revoke(self, key: str, json: bool) -> None:
        gone = self.end(_key_id(key))
        if json:
            print_json(_document(gone))
        else:
            err.print(escape(f"key {gone.id} is revoked"))


class FileDesk(KeyDesk):
    """The data directory of a node. If the node runs, it notices within two seconds."""

    def __init__(self, data: Path) -> None:
        self._data = data

    def find(self, key: str = "") -> list[KeyInfo]:
        store = KeyStore(self._data)
        if key:
            record, _ = resolve(store, key)
            return [each.info for each in store.known(record.id) if each.record.key_name == record.key_name][:1]
        return [each.info for key_id in store.ids() for each in store.known(key_id)]

    def make(self, wanted: KeyRequest, now_s: float) -> NewKey:
        record, key = create_key(self._data, wanted, secrets.token_bytes(SECRET_BYTES + SALT_BYTES), now_s)
        return NewKey(KeyStore(self._data).known(record.id)[0].info, key.reveal())

    def end(self, key: str) -> KeyInfo:
        (info,) = self.find(key)
        revoke_key(self._data, key)
        return info


class NodeDesk(KeyDesk):
    """Any node of the mesh."""

    def __init__(self, where: Where) -> None:
        self._where = where

    def find(self, key: str = "") -> list[KeyInfo]:
        return with_client(self._where, lambda client: client.keys(key))

    def make(self, wanted: KeyRequest, now_s: float) -> NewKey:
        return with_client(
            self._where,
            lambda client: client.create_key(
                wanted.name,
                publish=wanted.publish,
                subscribe=wanted.subscribe,
                admin=wanted.admin,
                expires_s=wanted.expires_s,
                quota={} if wanted.quota is None else wanted.quota.said(),
                groups=wanted.groups,
            ),
        )

    def end(self, key: str) -> KeyInfo:
        return with_client(self._where, lambda client: client.revoke_key(key))


# --- how keys look -----------------------------------------------------------------------------------------------


def _document(info: KeyInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "name": info.name,
        "publish": info.publish,
        "subscribe": info.subscribe,
        "groups": info.groups,
        "admin": info.admin,
        "quota": info.quota,
        "created": _time(info.created_s),
        "expires": None if info.expires_s is None else _time(info.expires_s),
        "made_by": info.made_by or None,
        "by": info.by or None,
        "known_since": None if info.known_s is None else _time(info.known_s),
    }


def _use(info: KeyInfo) -> dict[str, Any]:
    return {"limits": info.limits, "used": info.used}


def _row(info: KeyInfo) -> tuple[str, ...]:
    return (
        info.id,
        info.name,
        ", ".join(info.publish),
        ", ".join(info.subscribe),
        _groups(info),
        "yes" if info.admin else "",
        _numbers(info.quota),
        info.made_by,
        _time(info.created_s),
        "never" if info.expires_s is None else _time(info.expires_s),
    )


def _groups(info: KeyInfo) -> str:
    """An administrator may use all groups. A key that is older than these rights is judged by topics."""
    if info.admin:
        return "*"
    return "by topics" if info.groups is None else ", ".join(info.groups)


def _facts(info: KeyInfo) -> Iterable[tuple[str, str]]:
    yield "key", info.id
    yield "name", info.name
    yield "may publish to", ", ".join(info.publish) or "nothing"
    yield "may subscribe to", ", ".join(info.subscribe) or "nothing"
    yield "may use groups", _groups(info) or "none"
    yield "may administer", "yes" if info.admin else "no"
    yield "expires", "never" if info.expires_s is None else _time(info.expires_s)
    yield "made", f"{_time(info.created_s)} {_maker(info)}"
    if info.known_s is not None:
        yield "known here since", _time(info.known_s)
    for name in sorted({*info.limits, *info.quota}):
        limit = info.limits.get(name, info.quota.get(name, 0))
        source = "its own" if name in info.quota else "the node's"
        used = f", {info.used[name]:,} used at this node" if name in info.used else ""
        yield name, f"{limit:,} ({source}){used}"


def _maker(info: KeyInfo) -> str:
    if not info.made_by:
        return "in this directory; the node tells the mesh while it runs"
    return f"at node {info.made_by} by {info.by}" if info.by else f"at node {info.made_by}"


def _numbers(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _end_s(text: str, now_s: float) -> int:
    from weft.cli.log.input import parse_age_us

    return int(now_s) + parse_age_us(text) // US_PER_S


def _time(unix_s: int) -> str:
    return human_time(unix_s * US_PER_S)
