"""Who an EXMP client is: by its API key, by the certificate of its connection, or anybody on a node without security.

A key has its own rights (SEC-02). A client certificate of the mesh proves a name and has no rights by itself: the
configuration says what a client may do that shows a certificate and no key.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from weft.model import Pattern
from weft.port.access import Access, Caller, KeyAccess, OpenAccess
from weft.security import Acl, Cause, CertificateRefused, Kind, Refused, Secret, Unauthenticated
from weft.security.acl import owner_of
from weft.security.certificates import read_certificate_untrusted, read_identity_untrusted


class Admission(Protocol):
    def first_untrusted(self, tls: ssl.SSLObject | None) -> Caller | None:
        """Who has just connected; None if that takes a key. Raise only Refused."""

    @property
    def access(self) -> Access:
        """The keys, and their supervision."""


class OpenAdmission:
    """For a node that serves plain text on loopback."""

    def __init__(self, access: OpenAccess) -> None:
        self.access: Access = access
        self._anybody = access.anybody

    def first_untrusted(self, tls: ssl.SSLObject | None) -> Caller | None:
        return self._anybody()


class KeyAdmission:
    """``publish``, ``subscribe`` and ``groups`` are the rights of a client certificate."""

    def __init__(
        self,
        access: KeyAccess,
        mesh: str,
        publish: tuple[Pattern, ...],
        subscribe: tuple[Pattern, ...],
        groups: tuple[str, ...] | None = None,
    ) -> None:
        self.access: Access = access
        self._admit: Callable[[Acl], Caller] = access.admit_without_key
        self._mesh = mesh
        self._publish = publish
        self._subscribe = subscribe
        self._groups = groups

    def first_untrusted(self, tls: ssl.SSLObject | None) -> Caller | None:
        """TLS knows that our CA issued the certificate, if there is one; but a company's CA may serve many meshes."""
        der = None if tls is None else tls.getpeercert(binary_form=True)
        if der is None:
            return None
        try:
            identity = read_identity_untrusted(read_certificate_untrusted(der))
        except CertificateRefused as error:
            raise Unauthenticated(Cause.CERTIFICATE, f"your certificate is not valid: {error}") from None
        if identity.mesh != self._mesh:
            raise Unauthenticated(
                Cause.CERTIFICATE, f"a certificate of mesh {self._mesh} is needed, yours is of mesh {identity.mesh}"
            )
        if identity.kind is not Kind.CLIENT or not (self._publish or self._subscribe):
            return None
        who, owner = f"the certificate of client {identity.name}", owner_of("certificate", identity.name)
        return self._admit(Acl(who, self._publish, self._subscribe, owner=owner, groups=self._groups))


class Credential:
    """Who works on a connection now, supervised as long as it lasts. ``expelled`` is told whose key is no longer valid:
    the current caller's, or that of a former one which still has something open."""

    def __init__(self, admission: Admission, expelled: Callable[[Caller, Refused], None]) -> None:
        self._admission = admission
        self._expelled = expelled
        self._watched: dict[Caller, ExitStack] = {}
        self._caller: Caller | None = None

    @property
    def caller(self) -> Caller:
        """Raise Unauthenticated if there is none yet."""
        if self._caller is None:
            raise Unauthenticated(Cause.NO_KEY, "authenticate with an API key first")
        return self._caller

    def begin_untrusted(self, tls: ssl.SSLObject | None) -> bool:
        """Whether no key is needed; raise only Refused."""
        self._caller = self._admission.first_untrusted(tls)
        return self._caller is not None

    @property
    def is_shown(self) -> bool:
        """Whether there is a caller now."""
        return self._caller is not None

    async def show_key_untrusted(self, key: Secret[str], host: str) -> None:
        """From now on the client is the owner of this key, no matter who it was before; raise only Refused. Former
        callers are supervised until ``keep``."""
        caller = await self._admission.access.admit_key_untrusted(key, host)
        watching = self._watched[caller] = ExitStack()
        watching.enter_context(self._admission.access.watching(caller, partial(self._on_expelled, caller)))
        self._caller = caller

    def keep(self, former: Collection[Caller]) -> None:
        """Supervise only the current caller, and these: what they have opened is still open."""
        for caller in self._watched.keys() - {self._caller, *former}:
            self._watched.pop(caller).close()

    def end(self) -> None:
        self._caller = None
        self.keep(())

    def _on_expelled(self, caller: Caller, error: Refused) -> None:
        """A revoked key is reported once: it must not disturb the one that is shown next."""
        watching = self._watched.pop(caller, None)
        if watching is None:
            return
        watching.close()
        if caller is self._caller:
            self._caller = None
        self._expelled(caller, error)
