"""Nodes in network namespaces of their own, joined by a router in another one.

Clients live in the router's namespace. Cuts and losses are rules of its firewall; a slow link is a token bucket
(``tc tbf``) at both ends of the node's cable, or ``tc netem`` where the kernel has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

TIMEOUT_S: Final = 30
NETWORK: Final = "10.77"
QUEUE: Final = ("burst", "16kb", "latency", "400ms")


class NoNetwork(Exception):
    """This machine cannot have namespaces; the message says why."""


def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=check, capture_output=True, text=True, timeout=TIMEOUT_S)


class Network:
    """``address(node)`` is where a node listens, ``within(node)`` what goes before a command to run it there."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._number = {node: index for index, node in enumerate(nodes, start=1)}
        self._tag = f"chaos{os.getpid()}"
        self._made: list[str] = []

    def namespace(self, node: str = "") -> str:
        return f"{self._tag}-{node or 'router'}"

    def address(self, node: str) -> str:
        return f"{NETWORK}.{self._number[node]}.2"

    def within(self, node: str = "") -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.namespace(node))

    def open(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("iptables") is None:
            raise NoNetwork("network namespaces need root, and the commands ip and iptables")
        try:
            self._add("")
            self._router("sysctl", "-qw", "net.ipv4.ip_forward=1")
            for node in self._number:
                self._add(node)
                self._join(node)
        except subprocess.CalledProcessError as error:
            self.close()
            raise NoNetwork(f"this machine allows no network namespaces: {error.stderr.strip()}") from None

    def _add(self, node: str) -> None:
        run("ip", "netns", "add", self.namespace(node))
        self._made.append(self.namespace(node))
        run("ip", "-n", self.namespace(node), "link", "set", "lo", "up")

    def _join(self, node: str) -> None:
        inside, router, subnet = self.namespace(node), self.namespace(), f"{NETWORK}.{self._number[node]}"
        cable = (
            "link",
            "add",
            "name",
            _cable(node),
            "netns",
            router,
            "type",
            "veth",
            "peer",
            "name",
            "mesh",
            "netns",
            inside,
        )
        run("ip", *cable)
        for namespace, device, host in ((router, _cable(node), f"{subnet}.1"), (inside, "mesh", f"{subnet}.2")):
            run("ip", "-n", namespace, "addr", "add", f"{host}/24", "dev", device)
            run("ip", "-n", namespace, "link", "set", device, "up")
        run("ip", "-n", inside, "route", "add", "default", "via", f"{subnet}.1")

    def _router(self, *words: str, check: bool = True) -> None:
        run(*self.within(), *words, check=check)

    def close(self) -> None:
        while self._made:
            run("ip", "netns", "del", self._made.pop(), check=False)

    def cut(self, one: str, other: str, *, on: bool) -> None:
        what = "-I" if on else "-D"
        for source, target in ((one, other), (other, one)):
            self._router("iptables", what, "FORWARD", "-i", _cable(source), "-o", _cable(target), "-j", "DROP")

    def isolate(self, node: str, *, on: bool) -> None:
        """Pull the node's cable: nobody reaches it, and it reaches nobody."""
        run("ip", "-n", self.namespace(), "link", "set", _cable(node), "down" if on else "up")

    def lose(self, node: str, share: float, *, on: bool) -> None:
        """Of the packets in either direction, between the node and everybody."""
        chance = ("-m", "statistic", "--mode", "random", "--probability", str(share), "-j", "DROP")
        what = "-I" if on else "-D"
        for chain, side in (("FORWARD", "-i"), ("FORWARD", "-o"), ("INPUT", "-i"), ("OUTPUT", "-o")):
            self._router("iptables", what, chain, side, _cable(node), *chance)

    def slow(self, node: str, kbit: float, *, on: bool) -> None:
        ends = ((self.namespace(), _cable(node)), (self.namespace(node), "mesh"))
        for namespace, device in ends:
            queue = ("tc", "-n", namespace, "qdisc")
            if on:
                run(*queue, "add", "dev", device, "root", "tbf", "rate", f"{kbit:.0f}kbit", *QUEUE)
            else:
                run(*queue, "del", "dev", device, "root")


def _cable(node: str) -> str:
    """The router's end of a node's cable."""
    return f"to-{node}"
