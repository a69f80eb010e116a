"""How many datagrams a node takes: ``python -m bench.datagrams [--scale S] [--dir DIR] [--json | --markdown]``.

A node with an EMM gateway in a process of its own; this process sends to it, at rates that grow until datagrams are
lost. What counts is in the synced log. In the same run and in turn with it: what the cryptography alone costs, what
an empty loop that receives costs, and a flood of forgeries beside honest traffic.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import hmac
import os
import resource
import secrets
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count, islice
from pathlib import Path
from uuid import UUID

from bench.figures import Figure, Format, add_formats, report
from bench.mesh_nodes import node
from nacl.bindings import crypto_sign_open
from rich.console import Console

import weft
from weft.security import Secret
from weft.security.trust_file import DeviceKey, KeyKind, add_device
from weft.transport.udp.bulk import Message, Vector
from weft.wire import emm

ROUNDS = 5
SECONDS = 1.5  # of sending at one rate
HMAC_RATES = (40e3, 60e3, 80e3, 100e3, 120e3, 140e3, 160e3)
BEHIND_S = 0.1  # what is always on its way: a turn of the gateway, a sync, a look at the log
SIGNED_S = 1.2  # of one core's work in signatures; what waits for its check fits the gateway's line
KEY_ID = b"\0\0\0\1"
EVENT = "plant.line1.temp"
VALUE = {"celsius": 21.5, "line": 1, "unit": "sensor-0042"}
HMAC_BYTES, SIGNATURE_BYTES = 32, 64
console = Console(stderr=True)


class Device:
    """Packets of one sensor, made from a template: only number and authenticator differ."""

    def __init__(self, signed: bool) -> None:
        self.node_id = UUID(bytes=secrets.token_bytes(16), version=4)
        self.seed = secrets.token_bytes(32)
        self.signing_key = emm.SigningKey(self.seed)
        self.secret = secrets.token_bytes(32)
        self.signed = signed
        self._numbers = count(secrets.randbits(32))  # none twice: random ones do meet, and would count as replays

    @property
    def key(self) -> DeviceKey:
        if self.signed:
            return DeviceKey(self.node_id, KEY_ID, KeyKind.ED25519, Secret(self.signing_key.public_key))
        return DeviceKey(self.node_id, KEY_ID, KeyKind.HMAC, Secret(self.secret))

    def packets(self, amount: int) -> list[bytes]:
        credentials = emm.Credentials(
            KEY_ID, **({"signing_key": self.signing_key} if self.signed else {"hmac_key": self.secret})
        )
        draft = emm.draft_event(0, int(time.time()), EVENT, VALUE, node_id=self.node_id)
        template = emm.build(draft, credentials)
        head, middle = template[:1], template[5 : -(SIGNATURE_BYTES if self.signed else HMAC_BYTES)]
        field_head = middle[-2:]
        middle = middle[:-2]
        made = []
        for number in islice(self._numbers, amount):
            covered = head + struct.pack("!I", number % (1 << 32)) + middle
            code = self.signing_key.sign(covered) if self.signed else hmac.digest(self.secret, covered, "sha256")
            made.append(covered + field_head + code)
        return made


@dataclass
class Run:
    """One burst at a steady rate."""

    rate: float
    sent: int
    taken: int
    seconds: float
    behind_s: float  # from the last one sent to the last one in the log
    cpu_s: float  # of the node

    @property
    def lost(self) -> float:
        return 1 - self.taken / self.sent

    @property
    def kept_up(self) -> bool:
        """Nothing lost, and nothing put off: buffers take a second's worth of datagrams, which proves nothing."""
        return self.taken == self.sent and self.behind_s <= BEHIND_S


async def burst(client: weft.Client, port: int, packets: Sequence[bytes], rate: float) -> Run:
    lots = Lots(packets)
    before, cpu_before_s = await taken(client), node_cpu_s()
    begin = time.perf_counter()
    await asyncio.to_thread(send, port, lots, rate)
    sending_s = time.perf_counter() - begin
    settled, changed_s = before, time.perf_counter()
    while settled < before + len(packets) and time.perf_counter() - changed_s < 1.0:
        await asyncio.sleep(0.02)
        now = await taken(client)
        if now != settled:
            settled, changed_s = now, time.perf_counter()
    cpu_s = node_cpu_s() - cpu_before_s
    seconds = changed_s - begin
    return Run(len(packets) / sending_s, len(packets), settled - before, seconds, seconds - sending_s, cpu_s)


def send(port: int, lots: Lots, rate: float) -> None:
    """In small lots, each at its time: a real network does not deliver them all at once either. One call of the system
    for a lot: devices elsewhere would not take the node's processor away, so the sender takes as little as it can."""
    lot = max(int(rate / 1000), 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("127.0.0.1", port))
        begin = time.perf_counter()
        for first in range(0, len(lots), lot):
            lots.send(out, first, min(lot, len(lots) - first))
            ahead_s = begin + (first + lot) / rate - time.perf_counter()
            if ahead_s > 0:
                time.sleep(ahead_s)


class Lots:
    """Packets laid out for Linux's sendmmsg."""

    def __init__(self, packets: Sequence[bytes]) -> None:
        self._data = ctypes.create_string_buffer(b"".join(packets))
        ends = list(accumulate(map(len, packets)))
        begin = ctypes.addressof(self._data)
        places = zip(ends, map(len, packets), strict=True)
        self._vectors = (Vector * len(packets))(*(Vector(begin + end - size, size) for end, size in places))
        self._messages = (Message * len(packets))()
        at = ctypes.addressof(self._vectors)
        for number, message in enumerate(self._messages):
            message.vectors, message.vector_count = at + number * ctypes.sizeof(Vector), 1
        self._call = ctypes.CDLL(None, use_errno=True).sendmmsg

    def __len__(self) -> int:
        return len(self._messages)

    def send(self, out: socket.socket, first: int, count: int) -> None:
        while count:
            at = ctypes.byref(self._messages, first * ctypes.sizeof(Message))
            done = self._call(out.fileno(), at, count, 0)
            if done < 0:
                raise OSError(ctypes.get_errno(), "sendmmsg")
            first, count = first + done, count - done


async def taken(client: weft.Client) -> int:
    return sum(each.latest_offset for each in await client.positions("emm.>"))


# --- limits ----------------------------------------------------------------------------------------------------------


def rate_of(work: Callable[[], int], seconds: float = 0.3) -> float:
    done, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        done += work()
    return done / elapsed


def hmacs_alone(device: Device, packets: Sequence[bytes]) -> int:
    for packet in packets:
        hmac.compare_digest(hmac.digest(device.secret, packet[:-34], "sha256"), packet[-HMAC_BYTES:])
    return len(packets)


def signatures_alone(device: Device, packets: Sequence[bytes]) -> int:
    key = device.signing_key.public_key
    for packet in packets:
        crypto_sign_open(packet[-SIGNATURE_BYTES:] + packet[:-66], key)
    return len(packets)


def empty_loop(packets: Sequence[bytes]) -> float:
    """Datagrams a second that recvmsg brings into Python and nobody looks at, with what they say of TTL and TOS."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as into,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out,
    ):
        into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
        into.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        into.bind(("127.0.0.1", 0))
        into.setblocking(False)
        out.connect(into.getsockname())
        for packet in packets:
            out.send(packet)
        count, begin = 0, time.perf_counter()
        try:
            while True:
                into.recvmsg(2048, 128)
                count += 1
        except BlockingIOError:
            return count / (time.perf_counter() - begin)


# --- the whole -------------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    client: weft.Client
    port: int
    scale: float
    simple: Device = field(default_factory=lambda: Device(signed=False))
    signed: Device = field(default_factory=lambda: Device(signed=True))
    rates: dict[str, list[float]] = field(default_factory=dict)
    kept_up: dict[float, list[bool]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)

    async def round(self) -> None:
        few_simple, few_signed = self.simple.packets(2000), self.signed.packets(200)
        self._note("limit: HMAC-SHA256 alone, one core", rate_of(lambda: hmacs_alone(self.simple, few_simple)))
        verified = rate_of(lambda: signatures_alone(self.signed, few_signed))
        self._note("limit: Ed25519 alone, one core", verified)
        self._note("limit: empty receive loop", empty_loop(few_simple))
        seconds = max(SECONDS * self.scale, 0.2)
        for rate in HMAC_RATES:
            run = await self._burst("HMAC", self.simple, rate, seconds)
            if run.rate >= 0.95 * rate:  # else it was this process that could not send so fast
                self.kept_up.setdefault(rate, []).append(run.kept_up)
        run = await self._burst("Ed25519", self.signed, 2 * verified, SIGNED_S * self.scale / 2)
        self._note("Ed25519: share of one core's limit", run.taken / run.seconds / verified)

    async def _burst(self, name: str, device: Device, rate: float, seconds: float) -> Run:
        packets = device.packets(int(rate * seconds))
        run = await burst(self.client, self.port, packets, rate)
        console.print(
            f"{name} {run.rate:,.0f}/s: lost {run.sent - run.taken:,}, taken {run.taken / run.seconds:,.0f}/s, "
            f"{run.behind_s:.2f} s behind, "
            f"{run.cpu_s / run.taken * 1e6:.1f} us of CPU each",
            style="dim",
        )
        self._note(f"{name}: into the synced log at most", run.taken / run.seconds)
        self.cpu_us.setdefault(name, []).append(run.cpu_s / run.taken * 1e6)
        return run

    def _note(self, name: str, value: float) -> None:
        self.rates.setdefault(name, []).append(value)

    def sustained(self) -> float:
        """The highest rate up to which at least half of the rounds kept up."""
        best = 0.0
        for rate, kept_up in sorted(self.kept_up.items()):
            if 2 * sum(kept_up) < len(kept_up):
                break
            best = rate
        return best

    def figures(self) -> list[Figure]:
        limits = [
            Figure(name, statistics.median(rates), "packets/s", limit=True, note=f"best {max(rates):,.0f}")
            for name, rates in self.rates.items()
            if name.startswith("limit")
        ]
        most = [Figure(name, max(rates), "packets/s") for name, rates in self.rates.items() if name.endswith("at most")]
        shares = self.rates["Ed25519: share of one core's limit"]
        return [
            *limits,
            *most,
            Figure("HMAC: sustained without loss", self.sustained(), "packets/s", goal=100e3),
            Figure(
                "Ed25519: share of one core's limit",
                statistics.median(shares),
                "",
                goal=0.8,
                note=f"best {max(shares):.2f}",
            ),
            *(Figure(f"{name}: CPU of the node, at best", min(cost), "us") for name, cost in self.cpu_us.items()),
        ]


async def flood(client: weft.Client, port: int, device: Device, signed: Device, seconds: float) -> list[Figure]:
    """Forgeries, 20,000 a second, beside honest packets, 1,000 with HMAC and 100 signed a second."""
    forged = Lots([packet[:-8] + secrets.token_bytes(8) for packet in signed.packets(2000)])
    honest = Lots(device.packets(int(1000 * seconds)))
    trusted = Lots(signed.packets(int(100 * seconds)))
    rss_before = node_rss_bytes()
    before = await taken(client)
    over = threading.Event()

    def forge() -> None:
        while not over.is_set():
            send(port, forged, 20e3)

    forger = threading.Thread(target=forge)
    forger.start()
    await asyncio.gather(asyncio.to_thread(send, port, honest, 1000.0), asyncio.to_thread(send, port, trusted, 100.0))
    over.set()
    forger.join()
    await asyncio.sleep(3.0)
    arrived = await taken(client) - before
    return [
        Figure(
            "flood: honest packets lost",
            len(honest) + len(trusted) - arrived,
            f"of {len(honest) + len(trusted):,}",
            goal=0,
            ceiling=True,
            note=f"beside 20,000 forgeries/s for {seconds:.0f} s",
        ),
        Figure("flood: growth of the node's memory", (node_rss_bytes() - rss_before) / 2**20, "MiB"),
    ]


def node_process() -> Path:
    """This process's only child."""
    (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return Path(f"/proc/{child}")


def node_rss_bytes() -> int:
    return int((node_process() / "statm").read_text().split()[1]) * resource.getpagesize()


def node_cpu_s() -> float:
    """Of all its threads, in nanoseconds as the scheduler counts: ticks of a hundredth second miss short work."""
    tasks = (node_process() / "task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


async def run(scale: float, place: Path) -> list[Figure]:
    simple, signed = Device(signed=False), Device(signed=True)
    (place / "one").mkdir(mode=0o700)
    for device in (simple, signed):
        add_device(place / "one", device.key)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"WEFT_GATEWAY_EMM_UDP": f"127.0.0.1:{port}"}
    with node(place, "one", settings=settings) as address:
        async with weft.connect(address, insecure=True) as client:
            bench = Bench(client, port, scale, simple, signed)
            for number in range(max(int(ROUNDS * scale), 1)):
                console.print(f"round {number + 1}", style="dim")
                await bench.round()
            flooded = await flood(client, port, simple, signed, max(10 * scale, 2.0))
            return [*bench.figures(), *flooded]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how much of everything")
    parser.add_argument("--dir", type=Path, default=None, help="where the log goes; a disk like the one you will use")
    add_formats(parser)
    arguments = parser.parse_args()
    output: Format = arguments.format
    with tempfile.TemporaryDirectory(dir=arguments.dir) as place:
        figures = asyncio.run(run(arguments.scale, Path(place)))
    report(figures, "datagrams: EMM events into the synced log", output)


if __name__ == "__main__":
    main()
