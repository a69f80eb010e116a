"""What ``weft emm`` does."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
from rich.text import Text

from weft import emm
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
from weft.gateway.emm.identity import SEED_BYTES, prepare_next, use_next
from weft.model import parse_pattern
from weft.security.trust_file import KEY_ID_BYTES, SEAL_ID_BYTES, Trust, read_trust
from weft.transport.addresses import Address, parse_address
from weft.transport.open_node import Ways
from weft.transport.quic import quic_address, show_any
from weft.visible import visible
from weft.wire import emm as wire
from weft.wire.emm.fields import MESSAGE_ID_BITS, Value

STYLES: Final = {
    emm.Verdict.VERIFIED: "green",
    emm.Verdict.UNVERIFIED_IDENTITY: "yellow",
    emm.Verdict.UNSIGNED: "yellow",
}
BYTES_SHOWN: Final = 24  # of a refused datagram


@dataclass(frozen=True, slots=True)
class Signature:
    """What flags say about who signs. Secrets may be ``-``."""

    data: Path | None
    node_id: str | None
    key_id: str | None
    hmac_key: str | None
    signing_key: str | None

    def resolve(self) -> tuple[UUID, wire.Credentials]:
        by_hand = (self.node_id, self.key_id, self.hmac_key, self.signing_key)
        if self.data is not None:
            if any(each is not None for each in by_hand):
                misused("--data has its own identity: leave out --node-id and the keys")
            identity = identity_in(self.data)
            return identity.node_id, identity.credentials(read_trust(self.data))
        if self.node_id is None or self.key_id is None or (self.hmac_key is None) == (self.signing_key is None):
            misused(
                "there is no identity to sign with: give --data DIR, or --node-id, --key-id and one of --hmac-key and "
                "--signing-key"
            )
        key_id = parse_hex(self.key_id, "--key-id")
        if len(key_id) != KEY_ID_BYTES:
            misused(f"--key-id is {2 * KEY_ID_BYTES} hexadecimal digits")
        return parse_uuid(self.node_id, "--node-id"), self._credentials(key_id)

    def _credentials(self, key_id: bytes) -> wire.Credentials:
        if self.hmac_key is not None:
            return wire.Credentials(key_id, hmac_key=parse_secret(self.hmac_key, "--hmac-key").reveal())
        assert self.signing_key is not None, "one of the two is given"
        seed = parse_secret(self.signing_key, "--signing-key")
        return wire.Credentials(key_id, signing_key=wire.SigningKey(seed.reveal()))


@dataclass(frozen=True, slots=True)
class Making:
    """How a packet is made. The key may be ``-``."""

    urgent: bool
    compress: bool
    seal: str | None
    encryption_key: str | None
    packet_bytes_max: int
    profile: str | None

    def build(self, draft: wire.Draft, credentials: wire.Credentials, data: Path | None) -> bytes:
        draft = replace(draft, urgent=self.urgent)
        if self.compress:
            draft = wire.compressed_if_smaller(draft)
        return wire.build(draft, credentials, seal=self._seal(data), rules=_rules(self.packet_bytes_max, self.profile))

    def _seal(self, data: Path | None) -> wire.Seal | None:
        if self.seal is None:
            if self.encryption_key is not None:
                misused("--encryption-key needs the id that packets use for it: give --seal 32HEX")
            return None
        key_id = parse_hex(self.seal, "--seal")
        if len(key_id) != SEAL_ID_BYTES:
            misused(f"--seal is {2 * SEAL_ID_BYTES} hexadecimal digits")
        keys = {} if data is None else read_trust(data).seal_keys()
        if self.encryption_key is not None:
            keys[key_id] = parse_secret(self.encryption_key, "--encryption-key").reveal()
        everything = wire.SealRule(parse_pattern(">"), key_id)
        return wire.seal_for([everything], "this", keys.get, secrets.randbits)


def _rules(packet_bytes_max: int, profile: str | None) -> wire.Rules:
    if profile is not None and profile not in set(wire.Profile):
        misused(f"--profile knows {', '.join(wire.Profile)}")
    return wire.Rules(packet_bytes_max=packet_bytes_max, profile=None if profile is None else wire.Profile(profile))


def parse_value(given: str | None, *, text: bool, as_hex: bool) -> tuple[Value, ...]:
    """A number or a JSON object if it looks like one, else text."""
    if given is None:
        return ()
    if text:
        return (given,)
    if as_hex:
        return (parse_hex(given, "the value"),)
    try:
        found = msgspec.json.decode(given)
    except msgspec.DecodeError:
        return (given,)
    return (found if isinstance(found, int | float | dict) and not isinstance(found, bool) else given,)


def send_event(
    address: str,
    name: str,
    values: tuple[Value, ...],
    signature: Signature,
    making: Making,
    calling: Calling,
    json: bool,
) -> None:
    target = parse_address(address)
    roots = calling.roots(signature.data)
    node_id, credentials = signature.resolve()
    draft = wire.draft_event(secrets.randbits(MESSAGE_ID_BITS), int(time.time()), name, *values, node_id=node_id)
    packet = making.build(draft, credentials, signature.data)
    if roots is None:
        _send_in_the_clear(target, packet)
    else:
        asyncio.run(send_packet(target, packet, roots))
    if json:
        print_json({"node_id": str(node_id), "message_id": f"{draft.message_id:08x}", "bytes": len(packet)})
    else:
        err.print(f"{len(packet)} bytes, message {draft.message_id:08x} of node {node_id}", style="dim")


def _send_in_the_clear(target: Address, packet: bytes) -> None:
    try:
        family, kind, _, _, resolved = socket.getaddrinfo(*target, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as device:
            device.sendto(packet, resolved)
    except OSError as error:
        fail(f"cannot send to {target}: {error.strerror}")


# --- watching ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watch:
    """Until when, and how it is shown."""

    unsigned: bool
    count: int | None
    timeout_s: float | None
    json: bool
    sealed: tuple[str, ...]
    packet_bytes_max: int
    profile: str | None

    def settings(self) -> emm.Settings:
        sealed = tuple(wire.SealRule(parse_pattern(pattern), bytes(SEAL_ID_BYTES)) for pattern in self.sealed)
        return emm.Settings(
            unsigned_allowed=self.unsigned, rules=_rules(self.packet_bytes_max, self.profile), seal=sealed
        )


def watch_events(address: str, data: Path | None, watch: Watch, listening: Listening) -> None:
    """Exit status 1 if fewer events came in time than were asked for."""
    where, shown = parse_address(address), listening.shown(data)
    ways = Ways(where, None, None) if shown is None else Ways(None, where, shown)
    node = _node(data, ways, watch.settings(), watch.json)
    came = run_until_interrupted(lambda: _watch(node, watch, listening))
    if came is not None and watch.count is not None and came < watch.count:
        fail(f"{came} of {watch.count} events came within {watch.timeout_s:g} s")


async def _watch(node: emm.Node, watch: Watch, listening: Listening) -> int:
    came = 0
    async with node:
        where = quic_address(node.quic_address) if listening.quic else node.address
        err.print(f"listening on {show_any(where)} as node {node.node_id}", style="dim")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(watch.timeout_s):
                async for event in node.events():
                    _print_event(event, watch.json)
                    came += 1
                    if came == watch.count:
                        break
    return came


def _print_event(event: emm.Event, json: bool) -> None:
    if json:
        print_json(
            {
                "event": event.name,
                "values": [_plain(value) for value in event.values],
                "node_id": None if event.node_id is None else str(event.node_id),
                "message_id": f"{event.message_id:08x}",
                "timestamp_s": event.timestamp_s,
                "urgent": event.urgent,
                "verdict": event.verdict,
                "source": show_any(event.source),
            }
        )
        return
    line = Text(f"{event.verdict:<20} ", style=STYLES[event.verdict])
    line.append("! " if event.urgent else "  ", style="bold red")
    line.append(visible(event.name), style="bold")
    line.append(visible(f"  {' '.join(_shown(value) for value in event.values)}"), style="default")
    line.append(f"  {event.node_id or 'nobody'} from {show_any(event.source)}", style="dim")
    out.print(line, soft_wrap=True)


def _print_refusal(refusal: emm.Refusal, json: bool) -> None:
    if json:
        print_json(
            {
                "refused": str(refusal.error.reason),
                "what": str(refusal.error),
                "source": show_any(refusal.source),
                "hex": refusal.data.hex(),
            }
        )
        return
    line = Text("refused              ", style="red")
    line.append(f"  {refusal.error.reason}", style="bold")
    line.append(visible(f"  {refusal.error}"), style="default")
    line.append(f"  {refusal.data[:BYTES_SHOWN].hex()} from {show_any(refusal.source)}", style="dim")
    out.print(line, soft_wrap=True)


# --- peers and identity ------------------------------------------------------------------------------------------


def find_peers(addresses: Sequence[str], data: Path, timeout_s: float, calling: Calling, json: bool) -> None:
    """Exit status 1 if nobody answered."""
    targets, roots = [parse_address(address) for address in addresses], calling.roots(data)
    ways = Ways(place_for_answers(targets) if roots is None else None, None, None)
    node = _node(data, ways, emm.Settings(), json)
    found = run_until_interrupted(lambda: _find(node, targets, roots, timeout_s)) or []
    if json:
        print_json([_peer(each) for each in found])
    elif found:
        rows = [(peer["node_id"], peer["address"], peer["capabilities"]) for peer in map(_peer, found)]
        print_table(("node id", "address", "capabilities"), rows, names=3)
    if not found:
        fail(f"nobody answered within {timeout_s:g} s: no node is there, or one does not trust the other")


async def _find(
    node: emm.Node, targets: Sequence[tuple[str, int]], roots: bytes | None, timeout_s: float
) -> list[emm.Neighbour]:
    async with node:
        await join_all(node, targets, roots, timeout_s)
        return list(node.neighbours)


def _peer(neighbour: emm.Neighbour) -> dict[str, str]:
    return {
        "node_id": str(UUID(bytes=neighbour.node_id)),
        "address": show_any(neighbour.address),
        "capabilities": neighbour.about.decode(errors="backslashreplace"),
    }


def show_identity(data: Path, json: bool, *, prepare_key: bool = False, use_next_key: bool = False) -> None:
    identity = identity_in(data)
    if prepare_key:
        identity = prepare_next(data, secrets.token_bytes(SEED_BYTES))
    elif use_next_key:
        identity = use_next(data)
    node_id, key_id, public_key = str(identity.node_id), identity.key_id.hex(), identity.public_key.hex()
    if json:
        print_json({"node_id": node_id, "key_id": key_id, "public_key": public_key})
        return
    print_table(("identity", ""), [("node id", node_id), ("key id", key_id), ("public key", public_key)], names=2)
    trust = f"weft trust add --data DIR --node-id {node_id} --key-id {key_id} --public-key {public_key}"
    err.print(f"for others: {trust}", style="dim", soft_wrap=True)


# --- pieces ------------------------------------------------------------------------------------------------------


def _node(data: Path | None, ways: Ways, settings: emm.Settings, json: bool) -> emm.Node:
    """With the identity and trust store of a directory; without one, a temporary identity that trusts nobody."""
    trust = Trust() if data is None else read_trust(data)
    store = emm.TrustStore()
    trust.fill(store, Trust())
    if data is None:
        node_id, credentials = UUID(bytes=secrets.token_bytes(16), version=4), None
    else:
        identity = identity_in(data)
        node_id, credentials = identity.node_id, identity.credentials(trust)
    return emm.Node(
        node_id,
        credentials,
        store,
        listen=ways.udp,
        quic=ways.quic,
        certificate=ways.certificate,
        settings=settings,
        seal_keys=trust.seal_keys(),
        on_refused=lambda refusal: _print_refusal(refusal, json),
    )


def _plain(value: Value) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _shown(value: Value) -> str:
    return msgspec.json.encode(_plain(value)).decode() if not isinstance(value, str) else value
