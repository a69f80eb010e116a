"""Refusals for reasons of security: counted by cause, and logged once a minute for each cause and caller. Also refusals
because a producer used a sequence twice: logged once a minute for each producer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from structlog.stdlib import BoundLogger

from weft.doors import TurnedAway
from weft.errors import PeerError
from weft.log.errors import SequenceReused
from weft.security import Cause, CertificateRefused, RefusalLog, Refused
from weft.transport.addresses import parse_address


class Refusals:
    def __init__(self, logger: BoundLogger) -> None:
        self._logger = logger
        self._kept = RefusalLog()
        self._reused = RefusalLog()
        self._from_peers = RefusalLog()

    @property
    def totals(self) -> Mapping[str, int]:
        return {str(cause): count for cause, count in self._kept.totals.items()}

    def call(self, error: Refused, who: str) -> None:
        """A client was refused; ``who`` is its key, or its address."""
        self._note(error.cause, who, str(error))

    def link(self, address: str, error: PeerError) -> bool:
        """A peer was refused; return False if it was for other reasons than its certificate."""
        if not isinstance(error, CertificateRefused):
            return False
        self._note(Cause.PEER, parse_address(address).host, str(error))  # every attempt has its own port
        return True

    def turned_away(self, turned: TurnedAway) -> None:
        """A door turned somebody away. Whole networks may knock, so there is one line a minute for each port and
        reason, with the last address."""
        times = self._kept.note(Cause.CONNECTION, f"{turned.port} {turned.reason}", time.monotonic())
        if times is not None:
            self._logger.warning(
                "connections_turned_away", port=turned.port, who=turned.host, reason=turned.text, times=times
            )

    def connection_refused(self, host: str, reason: str) -> None:
        """Refused before anybody knew whose connection it was."""
        self._note(Cause.CONNECTION, host, reason)

    def connection_dropped(self, host: str, reason: str) -> None:
        """It broke the protocol, or did nothing for too long."""
        self._note(Cause.CONNECTION, host, reason)

    def from_peer(self, peer: str, fault: str, what: str) -> None:
        """Something from a peer was refused: one line a minute for each peer and fault."""
        times = self._from_peers.note(fault, peer, time.monotonic())
        if times is not None:
            self._logger.warning("refused_from_peer", peer=peer, reason=fault, what=what, times=times)

    def handler_failed(self, path: str, error: Exception) -> None:
        self._logger.error("call_failed", method=path, exc_info=error)

    def batch(self, error: SequenceReused) -> None:
        """A producer was refused. It counts among all refusals of publishers, by its code."""
        times = self._reused.note("sequence", str(error.facts["producer"]), time.monotonic())
        if times is not None:
            facts = {**error.facts, "kept_at": str(error.facts["kept_at"])}
            self._logger.warning("sequence_reused", **facts, times=times)

    def _note(self, cause: Cause, who: str, reason: str) -> None:
        times = self._kept.note(cause, who, time.monotonic())
        if times is not None:
            self._logger.warning("refused", cause=cause.value, who=who, reason=reason, times=times)
