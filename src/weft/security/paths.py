"""Where things are below a node's data directory."""

from __future__ import annotations

from pathlib import Path


def ca_directory(data: Path) -> Path:
    """The embedded CA."""
    return data / "ca"


def tls_directory(data: Path) -> Path:
    """The node's own certificate."""
    return data / "tls"
