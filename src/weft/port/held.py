"""How much memory callers make this node hold: one budget, with an account for each caller (SEC-05).

An account counts the bytes that the node has accepted or read for its caller and still keeps: batches without a
receipt, and deliveries and replies that nobody has taken yet. A caller whose account is full has to wait, and others go
on. A caller whose account is empty may always add one thing, so nobody waits for ever because of others. Each use has
its own share: a caller with a subscriber that does not read can still publish.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final
from weakref import WeakValueDictionary

from weft.port.errors import Busy

ROOM_WAIT_S: Final = 30.0  # a caller that takes none of its replies for so long is refused the next one


class Use(Enum):
    """What memory is held for. Each use gets the same share of what a caller may hold."""

    PUBLISH = "publishing"
    SUBSCRIBE = "subscriptions"
    FETCH = "fetches"
    ASK = "replies"


class HeldBytes:
    """All accounts together. They are forgotten when nobody uses them any longer."""

    def __init__(self, bytes_max: int, caller_bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.caller_bytes_max = caller_bytes_max
        self._accounts: WeakValueDictionary[tuple[str, Use], Account] = WeakValueDictionary()
        self._waiting: dict[Account, None] = {}  # accounts on which somebody waits for room
        self._is_waking = False

    def holding(self, who: str, use: Use, part: int = 1) -> Holding:
        """Begin to account for one stream or call of a caller (``key k3``). It may hold at most a ``part``-th of the
        caller's share for this use: half of it if ``part`` is 2."""
        account = self._accounts.get((who, use))
        if account is None:
            account = self._accounts[who, use] = Account(self, who, use)
        return Holding(account, account.bytes_max // part)

    def wait(self, account: Account) -> None:
        """Note that somebody waits on this account, and look soon whether there is room by now."""
        self._waiting[account] = None
        self.wake_soon()

    def wake_soon(self) -> None:
        """Wake those that wait in the next turn of the loop. Not at once, because room is given back in the middle of
        other work."""
        if self._waiting and not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        """Wake one waiter of each account that has room. Only one, because it may take all the room."""
        self._is_waking = False
        woken = False
        for account in list(self._waiting):
            woken = account.wake_one() or woken
            if not account.waiting:
                del self._waiting[account]
        if woken:
            self.wake_soon()


class Account:
    """What one caller holds for one use."""

    def __init__(self, held: HeldBytes, who: str, use: Use) -> None:
        self.held = held
        self.who = who
        self.use = use
        self.bytes_max = held.caller_bytes_max // len(Use)
        self.bytes = 0
        self.waiting: deque[Holding] = deque()

    @property
    def is_full(self) -> bool:
        held = self.held
        return self.bytes >= self.bytes_max or (held.bytes >= held.bytes_max and self.bytes > 0)

    def add(self, size: int) -> None:
        self.bytes += size
        self.held.bytes += size
        if size < 0:
            self.held.wake_soon()

    def wake_one(self) -> bool:
        """Wake the next waiter; return whether there was one."""
        if not self.waiting or self.is_full:
            return False
        self.waiting.popleft().wake()
        return True


class Holding:
    """What one stream or call holds on its caller's account. Its owner must ``close`` it."""

    __slots__ = ("_account", "_bytes_max", "_is_closed", "_is_in_line", "_woken", "bytes")

    def __init__(self, account: Account, bytes_max: int) -> None:
        self._account = account
        self._bytes_max = bytes_max
        self._woken: Callable[[], None] | None = None
        self._is_in_line = False
        self._is_closed = False
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._bytes_max or self._account.is_full

    def take(self, size: int) -> None:
        """Add bytes. This does nothing after ``close``: what was read for a caller that has gone is dropped."""
        if not self._is_closed:
            self.bytes += size
            self._account.add(size)

    def give_back(self, size: int) -> None:
        assert size <= self.bytes, "nothing is given back twice"
        self.bytes -= size
        self._account.add(-size)
        if self._woken is not None:
            self._line_up()

    def keep(self, size: int) -> None:
        """Everything but this many bytes was released."""
        if size < self.bytes:
            self.give_back(self.bytes - size)

    def close(self) -> None:
        self._woken = None  # this may still be in the account's line; it is skipped there
        self.keep(0)
        self._is_closed = True

    # --- waiting for room ----------------------------------------------------------------------------------------

    def when_room(self, woken: Callable[[], None]) -> None:
        """Call ``woken`` once, as soon as this is not full. A later call replaces ``woken``."""
        self._woken = woken
        self._line_up()

    def _line_up(self) -> None:
        if self.bytes < self._bytes_max and not self._is_in_line:
            self._is_in_line = True
            self._account.waiting.append(self)
            self._account.held.wait(self._account)

    def wake(self) -> None:
        """Called by the account when there is room."""
        self._is_in_line = False
        woken, self._woken = self._woken, None
        if woken is not None:
            woken()

    async def room(self) -> None:
        """Wait until it is not full; raise Busy if that takes too long."""
        try:
            async with asyncio.timeout(ROOM_WAIT_S):
                while self.is_full:
                    room = asyncio.Event()
                    self.when_room(room.set)
                    await room.wait()
        except TimeoutError:
            raise Busy(
                "this node holds too much for you that you have not read: read your other calls first",
                who=self._account.who,
                held_for=self._account.use.value,
                bytes=self._account.bytes,
                limit=self._account.bytes_max,
            ) from None
