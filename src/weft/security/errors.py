"""What security refuses, and why. The causes are labels of logs and metrics, so they are few and never renamed."""

from __future__ import annotations

from enum import StrEnum

from weft.errors import PeerError, UsageError


class Fault(StrEnum):
    """What is wrong with a certificate."""

    MALFORMED = "malformed"
    EXPIRED = "expired"
    NOT_YET_VALID = "not-yet-valid"
    WRONG_CA = "wrong-ca"
    WRONG_USAGE = "wrong-usage"
    WRONG_NAME = "wrong-name"


class CertificateRefused(PeerError):
    """A certificate that proves nothing here; ``fault`` says why."""

    def __init__(self, fault: Fault, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.fault = fault


class TokenRefused(PeerError):
    """An enrolment token that is not valid, or no longer valid."""


class RequestRefused(PeerError):
    """A certificate request that this CA refuses."""


class EnrolmentFailed(PeerError):
    """The CA could not be reached, is not the right one, or refused. Its own words are in the text."""


class Cause(StrEnum):
    """Why a call or a link was refused."""

    NO_KEY = "no-key"
    BAD_KEY = "bad-key"
    EXPIRED_KEY = "expired-key"
    REVOKED_KEY = "revoked-key"
    UNHEARD = "unheard"  # the node has heard of no revocations for longer than it may
    TOO_MANY_FAILURES = "too-many-failures"
    CERTIFICATE = "certificate"
    PEER = "peer"
    CONNECTION = "connection"  # its handshake failed, there were too many, or it broke the protocol
    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    GROUP = "group"
    ADMIN = "admin"


class Refused(UsageError):
    """A call that is not allowed; ``cause`` is for counting."""

    def __init__(self, cause: Cause, what: str, **facts: object) -> None:
        super().__init__(what, **facts)
        self.cause = cause


class Unauthenticated(Refused):
    """The caller has not proved who it is: no key, a wrong one, or one that is no longer valid."""


class NotAllowed(Refused):
    """The caller is known, but lacks the right."""
