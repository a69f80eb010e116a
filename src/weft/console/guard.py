"""Which requests are answered, and with whose rights.

A browser signs in with an API key and gets a cookie that scripts cannot read (HttpOnly), that other sites cannot make
it send (SameSite=Strict), and that no other host gets. What changes something also needs a header that no form and no
other site's script can send, from a page of this very address. A node without keys (``insecure``) answers only pages
that were loaded from a loopback address, and so no site whose name was pointed at this machine (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from weft.console.sessions import TOKEN_BYTES, Session, Sessions
from weft.errors import UsageError
from weft.limits import API_KEY_CHARS_MAX
from weft.port.access import Access, Caller
from weft.port.errors import TooLarge
from weft.security import Cause, Secret, Unauthenticated

MARK_HEADER: Final = "x-weft-console"  # with every request that changes something
BEARER: Final = re.compile(r"bearer +(\S+)", re.IGNORECASE)
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Guard:
    """``clock`` is monotonic. With ``is_open``, nobody needs a key."""

    def __init__(
        self, node_id: str, sessions: Sessions, is_open: bool, has_tls: bool, clock: Callable[[], float]
    ) -> None:
        self._sessions = sessions
        self._is_open = is_open
        self._has_tls = has_tls
        self._clock = clock
        # Cookies know no ports: nodes on one machine must not sign each other out.
        name = f"weft-console-{sha256(node_id.encode()).hexdigest()[:12]}"
        self.cookie = f"__Host-{name}" if has_tls else name
        self._anybody = Session(b"", "plain text", None, clock(), clock())

    # --- signing in and out --------------------------------------------------------------------------------------

    async def sign_in(self, request: Request, access: Access, key: str, response: Response) -> Caller:
        """Begin a session, and end the one that the browser had; raise Unauthenticated."""
        self.check_change(request)
        shown = Secret(key.strip()[: 2 * API_KEY_CHARS_MAX])
        caller = await access.admit_key_untrusted(shown, host_of(request))
        self.sign_out(request, response)
        _, cookie = self._sessions.open(secrets.token_bytes(TOKEN_BYTES), caller.who, shown, self._clock())
        response.set_cookie(
            self.cookie,
            cookie,
            max_age=int(self._sessions.lifetime_s),
            path="/",
            secure=self._has_tls,
            httponly=True,
            samesite="strict",
        )
        return caller

    def sign_out(self, request: Request, response: Response) -> None:
        session = self._session(request)
        if session is not None:
            self._sessions.close(session)
            response.delete_cookie(self.cookie, path="/", secure=self._has_tls, httponly=True, samesite="strict")

    # --- every call ----------------------------------------------------------------------------------------------

    async def admit(self, request: Request, access: Access) -> tuple[Session, Caller]:
        """Whose call this is; raise Unauthenticated. The key is checked again: it may have been revoked."""
        self._check_place(request)
        if self._is_open:
            return self._anybody, await access.admit_key_untrusted(None, host_of(request))
        session = self._session(request)
        if session is None:
            raise Unauthenticated(Cause.NO_KEY, "you are not signed in")
        try:
            caller = await access.admit_key_untrusted(session.key, host_of(request))
        except Unauthenticated:
            self._sessions.close(session)
            raise
        session.seen_s = self._clock()
        return session, caller

    async def admit_bearer(self, request: Request, access: Access) -> Caller:
        """Admit a program that sends its key (``authorization: Bearer``); raise Unauthenticated."""
        found = BEARER.fullmatch(request.headers.get("authorization", "")[: 2 * API_KEY_CHARS_MAX])
        return await access.admit_key_untrusted(None if found is None else Secret(found[1]), host_of(request))

    def check_change(self, request: Request) -> None:
        """Raise UsageError for a request that another site may have made the browser send."""
        self._check_place(request)
        site = request.headers.get("sec-fetch-site", "same-origin")
        origin = request.headers.get("origin")
        is_ours = origin is None or urlsplit(origin).netloc == request.headers.get("host")
        if request.headers.get(MARK_HEADER) != "1" or site not in ("same-origin", "none") or not is_ours:
            raise UsageError("this request does not come from a page of this console")

    def is_alive(self, session: Session) -> bool:
        return session is self._anybody or self._sessions.is_alive(session, self._clock())

    def _session(self, request: Request) -> Session | None:
        return self._sessions.find_untrusted(request.cookies.get(self.cookie, ""), self._clock())

    def _check_place(self, request: Request) -> None:
        if self._is_open and not is_loopback(request.headers.get("host", "")):
            raise UsageError(
                "an insecure node answers at loopback addresses only: http://127.0.0.1 or http://localhost"
            )


def host_of(request: Request) -> str:
    """The address that the request came from."""
    return request.client.host if request.client is not None else ""


def is_loopback(host: str) -> bool:
    """Whether a ``Host`` header is a loopback address or ``localhost``, and not a name that anybody can register."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def read_body_untrusted(request: Request, bytes_max: int) -> bytes:
    """Raise TooLarge before more than the limit is in memory, UsageError if the body does not arrive completely."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > bytes_max:
                raise TooLarge("the request is too large", limit=bytes_max)
    except ClientDisconnect:
        raise UsageError("the request ended early") from None
    return bytes(body)
