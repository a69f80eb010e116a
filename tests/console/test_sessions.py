"""Sessions: made here only, bounded, and over in time."""

from __future__ import annotations

import pytest

from weft.console.sessions import SESSIONS_MAX, SESSIONS_OF_KEY_MAX, TOKEN_BYTES, Session, Sessions
from weft.security import Secret

KEY = Secret("weft_k1_" + "0" * 64)


def opened(sessions: Sessions, number: int, who: str = "key k1", now_s: float = 0.0) -> tuple[Session, str]:
    return sessions.open(number.to_bytes(TOKEN_BYTES, "big"), who, KEY, now_s)


@pytest.mark.req("SEE-01")
def test_a_session_is_found_by_its_cookie_until_it_ends() -> None:
    sessions = Sessions(lifetime_s=100, idle_s=10)
    session, cookie = opened(sessions, 7)
    assert sessions.find_untrusted(cookie, 9.9) is session
    assert sessions.find_untrusted(cookie, 10.0) is None, "idle"
    session, cookie = opened(sessions, 8, now_s=20)
    for now_s in range(20, 120, 5):
        assert sessions.find_untrusted(cookie, now_s) is session
        session.seen_s = now_s
    assert sessions.find_untrusted(cookie, 120) is None, "however busy"
    assert len(sessions) == 0


@pytest.mark.req("SEE-01")
@pytest.mark.parametrize("cookie", ["", "0", "zz" * 32, "00" * 31, "00" * 33, "é" * 64, "00" * 32])
def test_what_a_browser_makes_up_is_no_session(cookie: str) -> None:
    """Fixation: a token that somebody else has chosen is never taken over."""
    sessions = Sessions(100, 10)
    opened(sessions, 7)
    assert sessions.find_untrusted(cookie, 0) is None
    assert len(sessions) == 1


@pytest.mark.req("SEE-01")
def test_the_token_itself_is_not_kept() -> None:
    sessions = Sessions(100, 10)
    session, cookie = opened(sessions, 7)
    assert bytes.fromhex(cookie) not in (session.mark, *sessions._sessions)


@pytest.mark.req("SEE-01", "SEC-05")
def test_one_key_cannot_sign_out_the_others() -> None:
    sessions = Sessions(100, 10)
    _, kept = opened(sessions, 0, "key k2")
    _, first = opened(sessions, 1)
    for number in range(2, 2 + SESSIONS_OF_KEY_MAX):
        opened(sessions, number)
    assert sessions.find_untrusted(first, 0) is None
    assert sessions.find_untrusted(kept, 0) is not None
    assert len(sessions) == SESSIONS_OF_KEY_MAX + 1


@pytest.mark.req("SEE-01", "SEC-05")
def test_there_are_not_more_than_may_be() -> None:
    sessions = Sessions(100, 10)
    for number in range(SESSIONS_MAX + 10):
        opened(sessions, number, f"key k{number}")
    assert len(sessions) == SESSIONS_MAX


@pytest.mark.req("SEE-01")
def test_what_a_session_has_open_ends_with_it() -> None:
    sessions = Sessions(100, 10)
    session, _ = opened(sessions, 1)
    ended: list[str] = []
    session.feeds["page"] = lambda: ended.append("page")
    sessions.end_old(5)
    assert ended == []
    sessions.end_old(10)
    assert ended == ["page"] and not sessions.is_alive(session, 5)
