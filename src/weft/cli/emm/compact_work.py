"""What ``weft emm compact`` does."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

from rich.text import Text

from weft import emm_compact
from weft.cli.console import err, fail, out
from weft.cli.emm.keys import (
    identity_in,
    parse_hex,
    parse_secret,
    parse_uuid,
    place_for_answers,
    run_until_interrupted,
)
from weft.cli.emm.quic import Calling, Listening, join_all, send_packet
from weft.cli.options import misused
from weft.cli.tables import print_json, print_table
from weft.emm_compact import ChangeKind, Node, Settings
from weft.security.trust_file import read_trust
from weft.transport.addresses import Address, parse_address
from weft.transport.open_node import Ways
from weft.transport.quic import quic_address, show_any
from weft.transport.udp.marks import marks_of
from weft.visible import visible
from weft.wire import emm_compact as wire
from weft.wire.emm_compact import EventType, Format, Header, Notification, Numbering, Priority, Signer
from weft.wire.emm_compact.auth import ED25519_KEY_BYTES, EMC_GROUP_KEY_BYTES_MIN
from weft.wire.emm_compact.codes import label
from weft.wire.reject import BadPacket

Code = TypeVar("Code", bound=IntEnum)
PRIORITIES: Final = {label(each): each for each in Priority}
FORMATS: Final = {label(each): each for each in Format}
BYTES_SHOWN: Final = 24  # of a refused datagram
VISIT_HEARTBEAT_S: Final = 1  # of a short visit: the others forget it within four seconds
NO_GROUP_KEY: Final = "has no group key: weft trust add --data DIR --group HEX"


@dataclass(frozen=True, slots=True)
class Sending:
    """Where a packet goes, with which marks, and how that is reported."""

    address: str
    urgent: bool
    ttl: int | None
    calling: Calling
    json: bool

    def send(self, body: Notification | wire.Command, signer: Signer, data: Path | None) -> None:
        target, now_s, roots = parse_address(self.address), time.time(), self.calling.roots(data)
        triple, _ = Numbering.starting(now_s).take(now_s, secrets.randbits(16))
        packet = wire.seal(Header(body.TYPE, *triple, self.urgent), body, signer)
        ttl = wire.TTL_DEFAULT if self.ttl is None else self.ttl
        if roots is None:
            _send_in_the_clear(packet, target, ttl)
        elif self.ttl is not None:
            misused("--ttl is for UDP: over QUIC, every packet counts as having 64 hops left")
        else:
            asyncio.run(send_packet(target, packet.raw, roots))
        event_id, epoch, offset = triple
        number = f"{event_id:04x}{epoch:04x}{offset:04x}"
        if self.json:
            print_json({"message_id": number, "bytes": len(packet.raw), "ttl": ttl})
        else:
            err.print(f"{len(packet.raw)} bytes, message {number}", style="dim")


def _send_in_the_clear(packet: wire.Packet, target: Address, ttl: int) -> None:
    tos = wire.tos(wire.dscp(packet), wire.Ecn.ECT_0)
    try:
        family, kind, _, _, resolved = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as device:
            device.sendmsg([packet.raw], marks_of(family).write(ttl, tos), 0, resolved)
    except OSError as error:
        fail(f"cannot send to {target}: {error.strerror}")


def send_notification(
    sending: Sending,
    message: str,
    as_hex: bool,
    priority: str,
    message_format: str | None,
    data: Path | None,
    group_key: str | None,
) -> None:
    chosen = _named(message_format, FORMATS, "--format") or (Format.BINARY if as_hex else Format.PLAIN_TEXT)
    body = Notification(_named(priority, PRIORITIES, "--priority") or Priority.INFO, chosen, _content(message, as_hex))
    # A notification is signed with the group key alone.
    sending.send(body, Signer(_group_key(data, group_key), bytes(ED25519_KEY_BYTES)), data)


@dataclass(frozen=True, slots=True)
class Order:
    """What flags say of a command."""

    name: str
    parameters: str
    as_hex: bool
    expires_s: int | None
    trace_id: str | None
    priority: str | None
    compress: bool

    def body(self, node_id: UUID) -> wire.Command:
        trace_id = None if self.trace_id is None else parse_uuid(self.trace_id, "--trace-id")
        return wire.draft_command(
            self.name,
            _content(self.parameters, self.as_hex),
            node_id,
            priority=_named(self.priority, PRIORITIES, "--priority"),
            expiry_s=self.expires_s,
            trace_id=trace_id,
            compress=self.compress,
        )


def send_command(
    sending: Sending, order: Order, data: Path | None, node_id: str | None, signing_key: str | None
) -> None:
    if data is not None:
        if node_id is not None or signing_key is not None:
            misused("--data has its own identity: leave out --node-id and --signing-key")
        identity = identity_in(data)
        who, seed = identity.node_id, identity.seed.reveal()
    elif node_id is None or signing_key is None:
        misused("there is no identity to sign with: give --data DIR, or --node-id and --signing-key")
    else:
        who, seed = parse_uuid(node_id, "--node-id"), parse_secret(signing_key, "--signing-key").reveal()
    # A command is signed with the node's own key alone.
    sending.send(order.body(who), Signer(bytes(EMC_GROUP_KEY_BYTES_MIN), seed), data)


# --- watching ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watch:
    """Until when, and how it is shown."""

    count: int | None
    timeout_s: float | None
    json: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where to be a node, and whose neighbour."""

    address: str
    join: Sequence[str]
    listening: Listening
    calling: Calling

    def ways(self, data: Path) -> Ways:
        where, shown = parse_address(self.address), self.listening.shown(data)
        return Ways(where, None, None) if shown is None else Ways(None, where, shown)

    def roots(self, data: Path) -> bytes | None:
        """For checking the nodes that are joined over QUIC; None if there are none."""
        return self.calling.roots(data) if self.join or self.calling.root is not None else None

    @property
    def targets(self) -> list[Address]:
        return [parse_address(each) for each in self.join]


def watch_events(place: Place, data: Path, watch: Watch) -> None:
    """Exit status 1 if fewer events came in time than were asked for."""
    watching, roots = _Watching(watch), place.roots(data)
    node = _node(
        data,
        place.ways(data),
        Settings(),
        join=place.targets if roots is None else (),
        on_change=watching.changed,
        on_unhandled=watching.commanded,
        on_refused=watching.refused,
    )
    run_until_interrupted(lambda: watching.watch(node, place, roots))
    if watching.is_over and watch.count is not None and watching.came < watch.count:
        fail(f"{watching.came} of {watch.count} events came within {watch.timeout_s:g} s")


class _Watching:
    """What comes, on its way to the terminal. Notifications and commands count."""

    def __init__(self, watch: Watch) -> None:
        self.came = 0
        self.is_over = False  # and not interrupted
        self._watch = watch
        self._enough = asyncio.Event()

    async def watch(self, node: Node, place: Place, roots: bytes | None) -> None:
        async with node:
            where = quic_address(node.quic_address) if place.listening.quic else node.address
            err.print(f"listening on {show_any(where)} as node {node.node_id}", style="dim")
            if roots is not None:
                await asyncio.gather(*(node.join_quic(each, roots) for each in place.targets))
            showing = asyncio.create_task(self._show_events(node))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._watch.timeout_s):
                    await self._enough.wait()
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
        self.is_over = True

    async def _show_events(self, node: Node) -> None:
        async for event in node.events():
            said = {"priority": label(event.priority), "format": label(event.format)}
            self._show(
                "notification",
                event.urgent,
                said | _told("message", event.message),
                f"{label(event.priority)}  {_shown(event.message)}",
                f"from {show_any(event.source)}, ttl {event.ttl}",
                {"source": show_any(event.source), "ttl": event.ttl},
            )

    def commanded(self, command: emm_compact.Command) -> None:
        body = command.body
        try:
            content = wire.content_untrusted(body.parameters, body.more)
        except BadPacket as error:
            self.refused(emm_compact.Refusal(command.packet.raw, command.source, error))
            return
        sender, trace_id = (None if each is None else str(each) for each in (command.sender, command.trace_id))
        self._show(
            "command",
            command.packet.header.urgent,
            {"name": body.name, **_told("parameters", content), "node_id": sender, "trace_id": trace_id},
            f"{visible(body.name)}  {_shown(content)}",
            f"{sender or 'by its fingerprint'} from {show_any(command.source)}, ttl {command.ttl}",
            {"source": show_any(command.source), "ttl": command.ttl},
        )

    def _show(
        self, kind: str, urgent: bool, said: dict[str, Any], line: str, beside: str, where: dict[str, Any]
    ) -> None:
        if self._enough.is_set():
            return
        if self._watch.json:
            print_json({"type": kind, "urgent": urgent, **said, **where})
        else:
            shown = Text(f"{kind:<14}", style="green")
            shown.append("! " if urgent else "  ", style="bold red")
            shown.append(line, style="default")
            shown.append(f"  {beside}", style="dim")
            out.print(shown, soft_wrap=True)
        self.came += 1
        if self.came == self._watch.count:
            self._enough.set()

    def refused(self, refusal: emm_compact.Refusal) -> None:
        reason, source = refusal.error.reason, show_any(refusal.source)
        if self._watch.json:
            document = {"refused": str(reason), "what": str(refusal.error), "source": source}
            print_json(document | {"hex": refusal.data.hex()})
            return
        line = Text(f"{'refused':<16}", style="red")
        line.append(f"{reason}", style="bold")
        line.append(f"  {visible(str(refusal.error))}", style="default")
        line.append(f"  {refusal.data[:BYTES_SHOWN].hex()} from {source}", style="dim")
        out.print(line, soft_wrap=True)

    def changed(self, change: emm_compact.NeighbourChange) -> None:
        who = change.relationship
        word = {ChangeKind.JOINED: "joined", ChangeKind.LOST: "lost", ChangeKind.DROPPED: "dropped"}[change.kind]
        err.print(f"{word} {who.uuid} at {show_any(who.address)}", style="dim")


# --- joining -----------------------------------------------------------------------------------------------------


def join_nodes(addresses: Sequence[str], data: Path, timeout_s: float, calling: Calling, json: bool) -> None:
    """Exit status 1 if nobody answered."""
    targets, roots = [parse_address(address) for address in addresses], calling.roots(data)
    ways = Ways(place_for_answers(targets) if roots is None else None, None, None)
    node = _node(data, ways, Settings(heartbeat_interval_s=VISIT_HEARTBEAT_S))
    found = run_until_interrupted(lambda: _join(node, targets, roots, timeout_s)) or []
    documents = [_neighbour(each) for each in found]
    if json:
        print_json(documents)
    elif documents:
        headings = ("node id", "address", "types", "region", "status", "places", "heartbeat s")
        names = ("node_id", "address", "types", "region", "status", "relationships_max", "heartbeat_interval_s")
        print_table(headings, [[_cell(each[name]) for name in names] for each in documents], names=5)
    if not found:
        fail(
            f"nobody answered within {timeout_s:g} s: no node is there, it has no room, or one does not know the "
            "other's key"
        )


async def _join(
    node: Node, targets: Sequence[Address], roots: bytes | None, timeout_s: float
) -> list[emm_compact.Neighbour]:
    async with node:
        await join_all(node, targets, roots, timeout_s)
        return list(node.relationships)


def _neighbour(each: emm_compact.Neighbour) -> dict[str, Any]:
    join, topology = each.about.join, each.about.topology
    return {
        "node_id": str(each.uuid),
        "address": show_any(each.address),
        "types": [label(kind) for kind in EventType if each.about.takes(kind)],
        "region": None if topology is None else topology.region,
        "status": None if join is None else _shown(each.about.status),
        "vendor": None if each.about.vendor is None else str(each.about.vendor),
        "relationships_max": None if join is None else join.relationships_max,
        "heartbeat_interval_s": each.heartbeat_interval_s,
    }


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case list():
            return ", ".join(value)
        case _:
            return visible(str(value))


# --- pieces ------------------------------------------------------------------------------------------------------


def _node(data: Path, ways: Ways, settings: Settings, **more: Any) -> Node:
    """With the identity and the trust of a directory."""
    identity, trust = identity_in(data), read_trust(data)
    signer = identity.signer(trust)
    if signer is None:
        misused(f"{data} {NO_GROUP_KEY}")
    return Node(
        identity.node_id,
        signer,
        trust.key_ring(),
        listen=ways.udp,
        quic=ways.quic,
        certificate=ways.certificate,
        settings=settings,
        **more,
    )


def _group_key(data: Path | None, given: str | None) -> bytes:
    if (data is None) == (given is None):
        misused("there is no key to sign with: give --data DIR with a group key, or --group-key HEX")
    if data is None:
        assert given is not None, "one of the two is given"
        return parse_secret(given, "--group-key").reveal()
    groups = read_trust(data).groups
    if not groups:
        misused(f"{data} {NO_GROUP_KEY}")
    return groups[-1].reveal()


def _content(given: str, as_hex: bool) -> bytes:
    return parse_hex(given, "--hex: what is sent") if as_hex else given.encode()


def _named(name: str | None, codes: Mapping[str, Code], option: str) -> Code | None:
    if name is not None and name not in codes:
        misused(f"{option} knows {', '.join(codes)}")
    return None if name is None else codes[name]


def _told(name: str, content: bytes) -> dict[str, str]:
    """For programs: text under its name, other bytes in hexadecimal digits under another."""
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": content.hex()}


def _shown(content: bytes) -> str:
    """Text if it is text, else hexadecimal digits; nothing that a terminal would obey."""
    try:
        return visible(content.decode())
    except UnicodeDecodeError:
        return content.hex()
