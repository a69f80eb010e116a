"""What was refused for reasons of security: counted by cause, logged once a minute for each cause and caller."""

from __future__ import annotations

import time
from collections.abc import Mapping

from structlog.stdlib import BoundLogger

from weft.errors import PeerError
from weft.security import Cause, CertificateRefused, RefusalLog, Refused
from weft.transport.grpc.access import host_untrusted


class Refusals:
    def __init__(self, logger: BoundLogger) -> None:
        self._logger = logger
        self._kept = RefusalLog()

    @property
    def totals(self) -> Mapping[str, int]:
        return {cause.value: count for cause, count in self._kept.totals.items()}

    def call(self, error: Refused, who: str) -> None:
        """A client's; ``who`` is its key, or its address."""
        self._note(error.cause, who, str(error))

    def link(self, address: str, error: PeerError) -> bool:
        """A peer's; False if it was refused for other reasons than its certificate."""
        if not isinstance(error, CertificateRefused):
            return False
        self._note(Cause.PEER, host_untrusted(address), str(error))  # every attempt has a port of its own
        return True

    def _note(self, cause: Cause, who: str, reason: str) -> None:
        times = self._kept.note(cause, who, time.monotonic())
        if times is not None:
            self._logger.warning("refused", cause=cause.value, who=who, reason=reason, times=times)
