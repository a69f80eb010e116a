"""Who is signed in. Pure: time and random tokens are arguments.

A browser keeps a random token in a cookie; here is only its hash. A session ends after some time, when it is idle for
too long, or when newer ones need its place. Tokens are made here and never taken from a browser, so nobody can be lured
into a session that somebody else knows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from weft.security import Secret

TOKEN_BYTES: Final = 32
COOKIE_CHARS_MAX: Final = 2 * TOKEN_BYTES
SESSIONS_MAX: Final = 256  # of a node: people and their browsers; about 1 KiB each
SESSIONS_OF_KEY_MAX: Final = 16  # so that one key cannot sign out everybody else
FEEDS_OF_SESSION_MAX: Final = 6  # a browser has no more connections to one host


@dataclass(eq=False, slots=True)
class Session:
    """``who`` names the key; the key itself is checked again at every call, here and at other nodes."""

    mark: bytes
    who: str
    key: Secret[str] | None
    began_s: float
    seen_s: float
    feeds: dict[object, Callable[[], None]] = field(default_factory=dict)  # open ones, and how to end them


class Sessions:
    """Times are of a monotonic clock."""

    def __init__(self, lifetime_s: float, idle_s: float) -> None:
        self.lifetime_s = lifetime_s
        self._idle_s = idle_s
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()  # the oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, token: bytes, who: str, key: Secret[str] | None, now_s: float) -> tuple[Session, str]:
        """A new session, and its cookie. ``token`` is random."""
        assert len(token) == TOKEN_BYTES, "shorter tokens can be guessed"
        self.end_old(now_s)
        of_key = [each for each in self._sessions.values() if each.who == who]
        if len(of_key) >= SESSIONS_OF_KEY_MAX:
            self.close(of_key[0])
        elif len(self._sessions) >= SESSIONS_MAX:
            self.close(next(iter(self._sessions.values())))
        session = Session(_mark(token), who, key, now_s, now_s)
        self._sessions[session.mark] = session
        return session, token.hex()

    def find_untrusted(self, cookie: str, now_s: float) -> Session | None:
        """The session that a browser names, if there is one and it has not ended."""
        if len(cookie) != COOKIE_CHARS_MAX:
            return None
        try:
            token = bytes.fromhex(cookie)
        except ValueError:
            return None
        session = self._sessions.get(_mark(token))
        if session is not None and not self.is_alive(session, now_s):
            self.close(session)
            return None
        return session

    def is_alive(self, session: Session, now_s: float) -> bool:
        known = self._sessions.get(session.mark) is session
        return known and now_s < session.began_s + self.lifetime_s and now_s < session.seen_s + self._idle_s

    def close(self, session: Session) -> None:
        """Its feeds end with it. Without effect if it is over."""
        self._sessions.pop(session.mark, None)
        for end in list(session.feeds.values()):
            end()

    def end_old(self, now_s: float) -> None:
        for session in [each for each in self._sessions.values() if not self.is_alive(each, now_s)]:
            self.close(session)

    def close_all(self) -> None:
        for session in list(self._sessions.values()):
            self.close(session)


def _mark(token: bytes) -> bytes:
    """The hash that is stored of a token. It is not enough to make the cookie."""
    return sha256(b"weft console session\0" + token).digest()
