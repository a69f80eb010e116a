"""``weft emm --quic``: which certificates are presented and trusted, and how nodes and packets are reached over it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from weft import emm, emm_compact
from weft.cli.console import err
from weft.cli.options import misused
from weft.errors import PeerError, UsageError
from weft.security import Secret, read_chain_untrusted, tls_directory
from weft.security.certificates import load_key, public_bytes
from weft.security.credentials import CertificateStore
from weft.security.files import read_file, read_private
from weft.transport.quic import QUIC_PACKET_BYTES_MAX, QuicLinks, Shown, read_roots
from weft.transport.quic.links import QUIC_CONNECT_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Calling:
    """What flags say about connecting over QUIC."""

    quic: bool
    root: Path | None

    def roots(self, data: Path | None) -> bytes | None:
        """The certificates to check others against; None without --quic."""
        if not self.quic:
            if self.root is not None:
                misused("--root is for --quic: UDP has no certificates")
            return None
        if self.root is not None:
            return read_roots(self.root)
        file = None if data is None else CertificateStore(tls_directory(data)).root_file
        if file is None or not file.exists():
            misused(
                "--quic checks the certificate of the other side: give --root FILE with the root certificate of the "
                "other side's mesh, or --data DIR of a secured node of that mesh"
            )
        return read_roots(file)


@dataclass(frozen=True, slots=True)
class Listening:
    """What flags say about listening for QUIC."""

    quic: bool
    certificate: Path | None
    key: Path | None

    def shown(self, data: Path | None) -> Shown | None:
        """The certificate to show; None without --quic."""
        if not self.quic:
            if self.certificate is not None or self.key is not None:
                misused("--certificate and --key are for --quic: UDP has no certificates")
            return None
        if (self.certificate is None) != (self.key is None):
            misused("--certificate and --key go together")
        if self.certificate is not None and self.key is not None:
            return _read_shown(self.certificate, self.key)
        found = None if data is None else CertificateStore(tls_directory(data)).load()
        if found is None:
            misused(
                "--quic shows a certificate: give --data DIR of a secured node, or --certificate FILE and --key FILE"
            )
        return found


@dataclass(frozen=True, slots=True)
class _Files:
    chain_pem: bytes
    key_pem: Secret[bytes]


def _read_shown(certificate: Path, key: Path) -> Shown:
    chain, private = read_file(certificate), read_private(key)
    if chain is None or private is None:
        raise UsageError(f"there is no file {certificate if chain is None else key}")
    found = _Files(chain, Secret(private))
    leaf = read_chain_untrusted(chain)[0]
    if public_bytes(leaf.public_key()) != public_bytes(load_key(found.key_pem).public_key()):
        raise UsageError(f"the private key in {key} is not that of the certificate in {certificate}")
    return found


async def send_packet(address: tuple[str, int], packet: bytes, roots: bytes) -> None:
    """Over its own connection. Raise PeerError if the other side is not trusted, or the connection ends too early."""
    if len(packet) > QUIC_PACKET_BYTES_MAX:
        raise UsageError("the packet is too large for QUIC", have=len(packet), limit=QUIC_PACKET_BYTES_MAX)
    links = QuicLinks(lambda datagrams: None)
    try:
        target = await links.connect(*address, roots)
        if not links.send(packet, target):
            raise PeerError("the other side accepts no packet of this size", have=len(packet))
        async with asyncio.timeout(QUIC_CONNECT_TIMEOUT_S):
            await links.acknowledged(target)
    except TimeoutError:
        raise PeerError("the other side no longer answers") from None
    finally:
        links.close()


async def join_all(
    node: emm.Node | emm_compact.Node, targets: Sequence[tuple[str, int]], roots: bytes | None, timeout_s: float
) -> None:
    """Join all of these at once, over QUIC if there are ``roots``, and print why a connection failed.

    Those that do not answer are left out; raise UsageError for targets that cannot be asked.
    """

    def join(target: tuple[str, int]) -> Coroutine[None, None, Any]:
        return node.join(target, timeout_s) if roots is None else node.join_quic(target, roots, timeout_s)

    for each in await asyncio.gather(*map(join, targets), return_exceptions=True):
        if isinstance(each, UsageError):
            raise each
        if isinstance(each, PeerError) and roots is not None:
            err.print(Text(str(each)), style="dim", soft_wrap=True)
