"""Sockets that listen, with a door in front: a connection that is not let in is closed before anything is made for
it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from weft.doors.keeper import Door, Guest
from weft.errors import UsageError

BACKLOG: Final = 1024
ACCEPTED_AT_ONCE: Final = 32  # others want their turn
NO_DESCRIPTORS_PAUSE_S: Final = 0.1  # before the system is asked for another one
SETTLING_PAUSE_S: Final = 0.002  # for those to go who were told to: a turn of the loop or two
STOP_S_MAX: Final = 0.1  # for connections that are being made; a TLS handshake may take longer, and is cut off
EVERYWHERE: Final = "::"  # IPv4 too
MAPPED: Final = "::ffff:"  # how a socket for both shows IPv4

Connect = Callable[[socket.socket, Guest, int], Awaitable[object]]


def listen_on(host: str, port: int) -> socket.socket:
    """A socket that listens; OSError."""
    both = host == EVERYWHERE and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    listening.setblocking(False)
    return listening


def bound_to(host: str, port: int) -> socket.socket:
    """The same, with UsageError."""
    try:
        return listen_on(host, port)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {why_not(error)}") from None


def why_not(error: OSError) -> str:
    """Why an address cannot be used, without Python's note of what it attempted: the caller says that."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    return os.strerror(error.errno)


class Acceptor:
    """Takes connections from a listening socket. ``connect`` gets those that were let in, with the caller's port; it
    puts a protocol on the socket, raises OSError if that fails, and sees to it that the guest leaves in the end."""

    def __init__(self, listening: socket.socket, door: Door, connect: Connect) -> None:
        self._listening = listening
        self._door = door
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._paused: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._paused = None
        if not self._is_stopped:
            self._loop.add_reader(self._listening, self._accept)

    async def stop(self) -> None:
        """Accept no more, and drop those that are not connected yet."""
        if not self._is_stopped:
            self._is_stopped = True
            self._loop.remove_reader(self._listening)
            self._listening.close()
            for timer in (self._paused, self._deadline):
                if timer is not None:
                    timer.cancel()
        if self._connecting:
            _, late = await asyncio.wait(self._connecting, timeout=STOP_S_MAX)
            for each in late:
                each.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _pause(self, pause_s: float) -> None:
        self._loop.remove_reader(self._listening)
        self._paused = self._loop.call_later(pause_s, self.start)

    def _accept(self) -> None:
        """Accept waiting connections. ``sock_accept`` is not used: cancelling it can lose an accepted connection."""
        for _ in range(ACCEPTED_AT_ONCE):
            if self._door.is_settling:
                self._pause(SETTLING_PAUSE_S)
                break
            try:
                connected, address = self._listening.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.ECONNABORTED:
                    continue
                self._door.cannot_accept(error.strerror or str(error))
                self._pause(NO_DESCRIPTORS_PAUSE_S)
                break
            self._let_in(connected, str(address[0]).removeprefix(MAPPED), int(address[1]))
        self._watch()

    def _let_in(self, connected: socket.socket, host: str, port: int) -> None:
        guest = self._door.arrive(host, self._loop.time())
        if guest is None:
            connected.close()
            return
        connected.setblocking(False)
        guest.turn_out = partial(_shut, connected)
        connecting = self._loop.create_task(self._connected(connected, guest, port))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connected(self, connected: socket.socket, guest: Guest, port: int) -> None:
        try:
            await self._connect(connected, guest, port)
        except (OSError, asyncio.CancelledError):  # the peer is gone already, speaks no TLS, or all of us are gone
            connected.close()
            guest.leave()

    # --- deadlines -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look again when the oldest stranger's time is up; it may be gone by then."""
        deadline_s = self._door.next_deadline_s()
        if self._deadline is None and deadline_s is not None and not self._is_stopped:
            self._deadline = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        self._deadline = None
        self._door.expire(self._loop.time())
        self._watch()


def _shut(connected: socket.socket, text: str) -> None:
    """The other side reads its end, and closes it."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
