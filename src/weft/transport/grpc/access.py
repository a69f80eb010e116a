"""Who calls, and what they may do: asked by every call of ``Mesh`` and ``Admin`` (SEC-02).

A certificate of the mesh opens the connection; the API key in the call's metadata (``authorization: Bearer weft_...``)
says who it is and has the rights. Streams stay open for days, so their keys are looked at again every second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol
from urllib.parse import unquote

from weft.limits import API_KEY_CHARS_MAX
from weft.model import Pattern, Topic
from weft.security import Acl, Authenticator, Cause, CertificateRefused, Principal, Refused, Secret, Unauthenticated
from weft.security.certificates import read_identity_untrusted
from weft.transport.grpc.byte_streams import Context
from weft.transport.grpc.mesh_errors import abort
from weft.transport.grpc.peer_gate import certificate_untrusted

SCHEME: Final = re.compile(r"bearer +(\S+)", re.IGNORECASE)
HOST: Final = re.compile(r"ipv[46]:(?:\[(.+)\]|(.+)):[0-9]+")  # of gRPC's names for peers
EVERYBODY: Final = Acl("plain text", (Pattern(">"), Pattern("weft.>")), (Pattern(">"), Pattern("weft.>")), admin=True)

Note = Callable[[Refused, str], None]  # what was refused, and to whom


class Caller:
    """Somebody with an open call. The rights may change meanwhile; every check raises Refused."""

    def __init__(self, acl: Acl, note: Note) -> None:
        self._acl = acl
        self._note = note
        self._over: Refused | None = None

    def update(self, acl: Acl) -> None:
        self._acl = acl

    def expel(self, error: Refused) -> None:
        """Whoever this is, it is nobody any more."""
        self._over = error

    def check(self) -> None:
        if self._over is not None:
            raise self._over

    def check_publish(self, topic: Topic) -> None:
        with self._noting():
            self._acl.check_publish(topic)

    def check_subscribe(self, pattern: Pattern) -> None:
        with self._noting():
            self._acl.check_subscribe(pattern)

    def check_admin(self, what: str) -> None:
        with self._noting():
            self._acl.check_admin(what)

    def may_subscribe(self, pattern: Pattern) -> bool:
        self.check()
        return self._acl.may_subscribe(pattern)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except Refused as error:
            self._note(error, self._acl.who)
            raise


class Access(Protocol):
    async def admit_untrusted(self, context: Context) -> Caller:
        """Who makes this call; raise only Refused."""

    async def admit_key_untrusted(self, key: Secret[str] | None, host: str) -> Caller:
        """Who shows this key, by another protocol than gRPC; raise only Refused."""

    def watching(self, caller: Caller, end: Callable[[Refused], None]) -> AbstractContextManager[None]:
        """As long as the stream is open; ``end`` is called once the caller may have it no more."""


async def admitted(access: Access, context: Context) -> Caller:
    """The caller, or the end of the call."""
    try:
        return await access.admit_untrusted(context)
    except Refused as error:
        await abort(context, error)


class OpenAccess:
    """Everybody may do everything: of a node that serves plain text on loopback."""

    async def admit_untrusted(self, context: Context) -> Caller:
        return self.anybody()

    async def admit_key_untrusted(self, key: Secret[str] | None, host: str) -> Caller:
        return self.anybody()

    def anybody(self) -> Caller:
        return Caller(EVERYBODY, lambda error, who: None)

    def watching(self, caller: Caller, end: Callable[[Refused], None]) -> AbstractContextManager[None]:
        return nullcontext()


class KeyAccess:
    """By certificate and API key. ``note`` hears of every refusal."""

    def __init__(self, authenticator: Authenticator, mesh: str, note: Note) -> None:
        self._authenticator = authenticator
        self._mesh = mesh
        self._note = note
        self._open: dict[Caller, Callable[[Refused], None]] = {}

    async def admit_untrusted(self, context: Context) -> Caller:
        host = host_untrusted(context.peer())
        try:
            self._check_certificate_untrusted(context)
        except Refused as error:
            self._note(error, host)
            raise
        return await self.admit_key_untrusted(key_untrusted(context), host)

    async def admit_key_untrusted(self, key: Secret[str] | None, host: str) -> Caller:
        try:
            principal = await self._authenticator.authenticate_untrusted(key, host)
        except Refused as error:
            self._note(error, host)
            raise
        return KeyCaller(principal, self._note)

    def admit_without_key(self, acl: Acl) -> Caller:
        """Somebody whom a certificate gives these rights."""
        return Caller(acl, self._note)

    def _check_certificate_untrusted(self, context: Context) -> None:
        """TLS knows that our CA made it; a CA of a company may serve many meshes."""
        try:
            certificate = certificate_untrusted(context)
            mesh = None if certificate is None else read_identity_untrusted(certificate).mesh
        except CertificateRefused as error:
            raise Unauthenticated(Cause.CERTIFICATE, f"your certificate is not good: {error}") from None
        if mesh != self._mesh:
            found = "there is none" if mesh is None else f"yours is of mesh {mesh}"
            raise Unauthenticated(Cause.CERTIFICATE, f"a certificate of mesh {self._mesh} is needed, {found}")

    @contextmanager
    def watching(self, caller: Caller, end: Callable[[Refused], None]) -> Iterator[None]:
        self._open[caller] = end
        try:
            yield
        finally:
            del self._open[caller]

    def look(self) -> None:
        """End the streams of those who may have them no more; for the owner to call every second."""
        for caller, end in list(self._open.items()):
            assert isinstance(caller, KeyCaller), "all callers here have keys"
            try:
                caller.renew(self._authenticator)
            except Refused as error:
                self._note(error, caller.principal.key_id)
                caller.expel(error)
                end(error)


class KeyCaller(Caller):
    """A caller with the key it has shown."""

    def __init__(self, principal: Principal, note: Note) -> None:
        super().__init__(principal.acl, note)
        self.principal = principal

    def renew(self, authenticator: Authenticator) -> None:
        """Raise Unauthenticated once the key is good no more."""
        self.principal = authenticator.refresh(self.principal)
        self.update(self.principal.acl)


def key_untrusted(context: Context) -> Secret[str] | None:
    """The API key of a call; None if there is none."""
    value = dict(context.invocation_metadata() or ()).get("authorization")
    if not isinstance(value, str) or len(value) > 2 * API_KEY_CHARS_MAX:
        return None
    found = SCHEME.fullmatch(value)
    return None if found is None else Secret(found[1])


def host_untrusted(peer: str) -> str:
    """The address in what gRPC calls a peer: ``ipv4:127.0.0.1:5``, ``ipv6:%5B::1%5D:5``."""
    found = HOST.fullmatch(unquote(peer))
    return peer if found is None else found[1] or found[2]
