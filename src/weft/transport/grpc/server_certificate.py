"""The certificate that a gRPC server shows, replaced while the server runs.

gRPC asks for a changed certificate before each handshake, on threads of its own. When it gets one, it frees what it
made of the one before, although another thread that has asked just before may be about to use that: the process dies
(grpc/grpc#36693). So gRPC gets a certificate only when it changed, and only once such threads are through. It asks
under a lock: while one thread waits here, no other begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import grpc

from weft.limits import HANDSHAKE_BEGIN_S
from weft.security import Credentials


class ServerCertificate:
    """``current`` tells the server's credentials of now; ``clock`` and ``sleep`` are the system's but in tests."""

    def __init__(
        self,
        current: Callable[[], Credentials],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._current = current
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()  # gRPC has one for each port; this one is for all
        self._given = current()
        self._asked_s = clock()  # when gRPC last asked: a handshake began then

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a port whose clients have to show certificates of the same CA."""
        return grpc.dynamic_ssl_server_credentials(
            _configuration(self._given), self.changed, require_client_authentication=True
        )

    def changed(self) -> Any:
        """The configuration with the current certificate, or None if gRPC has it already. Called by gRPC's threads."""
        with self._lock:
            configuration = None
            if self._current() is not self._given:
                self._sleep(max(0.0, self._asked_s + HANDSHAKE_BEGIN_S - self._clock()))
                self._given = self._current()
                configuration = _configuration(self._given)
            self._asked_s = self._clock()
            return configuration


def _configuration(credentials: Credentials) -> Any:
    pair = (credentials.key_pem.reveal(), credentials.chain_pem)
    return grpc.ssl_server_certificate_configuration([pair], credentials.root_pem)
