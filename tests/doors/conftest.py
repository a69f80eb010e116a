"""Certificates, as for tests of transports."""

from __future__ import annotations

from tests.transport.conftest import certificates

__all__ = ["certificates"]
