"""Ports that a node wants, the node itself if it runs, the peers that it dials, and the CA that it renews at."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Final

from weft.cli.examination import Finding, Patient, bad, ok, warning
from weft.errors import WeftError
from weft.node.config.named_addresses import NamedAddress, Way
from weft.node.config.sections import Peer
from weft.security.certificates import read_certificate_untrusted, read_identity_untrusted
from weft.security.credentials import CertificateStore
from weft.security.files import tls_directory
from weft.security.urls import parse_url
from weft.security.verification import check_node
from weft.transport.tcp.tls import client_context

PATIENCE_S: Final = 5.0  # for each of them: one that answers later is useless as a peer, too
AT_ONCE: Final = 32  # peers that are tried together
ANSWER_BYTES_MAX: Final = 65_536
CLOCK_APART_S: Final = 60.0  # as much as certificates allow for


# --- ports -------------------------------------------------------------------------------------------------------


def ports(patient: Patient) -> Iterator[Finding]:
    for door in patient.config.named_addresses():
        if door.way is not Way.OUT:
            yield _port(door, patient.is_running)


def _port(door: NamedAddress, is_running: bool) -> Finding:
    """Whether it could be listened on, tried out."""
    kind = socket.SOCK_STREAM if door.way is Way.TCP else socket.SOCK_DGRAM
    try:
        places = socket.getaddrinfo(*door.address, type=kind, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in places:
            with socket.socket(family, kind) as tried:
                if door.way is Way.TCP:
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(place)
    except socket.gaierror as error:
        return bad("ports", f"{door}: {error.strerror}", "give an address of this machine")
    except OSError as error:
        return judge_port(str(door), error.errno or 0, error.strerror or "", is_running)
    return ok("ports", f"{door} is free")


def judge_port(shown: str, number: int, text: str, is_running: bool) -> Finding:
    if number == errno.EADDRINUSE:
        if is_running:
            return ok("ports", f"{shown} is in use, as it should be while the node runs")
        return bad(
            "ports",
            f"{shown} is in use by another process",
            "end that process (ss -lptun shows it), or use another port",
        )
    if number == errno.EACCES:
        return bad(
            "ports", f"{shown}: {text}", "use a port from 1024 on, or give the node the right (CAP_NET_BIND_SERVICE)"
        )
    return bad("ports", f"{shown}: {text}", "give an address that this machine has")


# --- the node itself ---------------------------------------------------------------------------------------------


def node(patient: Patient) -> Iterator[Finding]:
    if not patient.is_running:
        yield ok("node", "it does not run")
        return
    admin = patient.config.listen.admin
    host = "127.0.0.1" if admin.is_wildcard else admin.host
    try:
        connection = _admin_connection(host, admin.port, patient.config.admin_has_tls)
        try:
            connection.request("GET", "/readyz")
            status, body = _answer(connection)
        finally:
            connection.close()
        reasons = [str(each) for each in json.loads(body)["reasons"]]
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        yield warning(
            "node",
            f"a process has the log open, but no node answers at {admin} as a node does: {error}",
            "give the address that it was started with (--admin)",
        )
        return
    if status == 200:
        yield ok("node", "it runs and is ready")
    else:
        yield bad("node", f"it runs and is not ready: {'; '.join(reasons)}", "fix the reason that it gives")


def _admin_connection(host: str, port: int, has_tls: bool) -> http.client.HTTPConnection:
    """Does not check who answers, because health is served to everybody; ``certificates`` checks the certificates."""
    if not has_tls:
        return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=context)


def _answer(connection: http.client.HTTPConnection) -> tuple[int, bytes]:
    response = connection.getresponse()
    return response.status, response.read(ANSWER_BYTES_MAX)


# --- peers -------------------------------------------------------------------------------------------------------


def peers(patient: Patient) -> Iterator[Finding]:
    wanted = patient.config.peers
    if not wanted:
        yield ok("peers", "none to dial")
        return
    yield from asyncio.run(_try_all(patient, wanted))


async def _try_all(patient: Patient, wanted: tuple[Peer, ...]) -> list[Finding]:
    room = asyncio.Semaphore(AT_ONCE)
    context = _context(patient)

    async def try_one(peer: Peer) -> Finding:
        async with room:
            return await _try(patient, peer, context)

    return await asyncio.gather(*map(try_one, wanted))


def _context(patient: Patient) -> ssl.SSLContext | None:
    """TLS as a node uses it to dial: its own certificate, the mesh's root, identities instead of host names. None
    without these.
    """
    store = CertificateStore(tls_directory(patient.config.node.data))
    if patient.config.insecure or store.load() is None:
        return None
    context = client_context(store.root_file, store.identity_file)
    context.check_hostname = False  # nodes go by the identity in the certificate (SEC-01)
    context.set_alpn_protocols(["h2"])
    return context


async def _try(patient: Patient, peer: Peer, context: ssl.SSLContext | None) -> Finding:
    shown = str(peer.address)
    try:
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection(*peer.address, ssl=context)
    except TimeoutError:
        return bad(
            "peers",
            f"{shown} does not answer within {PATIENCE_S:g} s",
            "check whether it runs, and the network in between",
        )
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        return bad(
            "peers", f"{shown} answers, but not as a node of this mesh: {reason}", "see whether it is the right address"
        )
    except OSError as error:
        return bad("peers", f"{shown}: {error.strerror or error}", "check whether it runs and the address is right")
    try:
        tls = writer.get_extra_info("ssl_object")
        if tls is None:
            return ok("peers", f"{shown} answers")
        identity = read_identity_untrusted(read_certificate_untrusted(tls.getpeercert(binary_form=True)))
        check_node(identity, patient.config.node.mesh, peer.node_id or identity.name)
        return ok("peers", f"{shown} is {identity}")
    except WeftError as error:
        return bad("peers", f"{shown}: {error}", "see whether it is the right address")
    finally:
        writer.transport.abort()


# --- the CA ------------------------------------------------------------------------------------------------------


def authority(patient: Patient) -> Iterator[Finding]:
    """Checks the CA of a node that enrolled: renewals need it, and this node's clock is compared with its clock."""
    store = CertificateStore(tls_directory(patient.config.node.data))
    place = patient.config.security.ca_url or store.load_ca_url()
    if patient.config.insecure or place is None or not store.root_file.exists():
        return
    url = parse_url(place)
    context = client_context(store.root_file)
    try:
        connection = http.client.HTTPSConnection(url.host, url.port, timeout=PATIENCE_S, context=context)
        try:
            connection.request("GET", "/health")
            response = connection.getresponse()
            response.read(ANSWER_BYTES_MAX)
            date = response.headers.get("Date")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        yield bad(
            "CA", f"{url} cannot be used: {error}", "start the CA: without it, the certificate expires and links end"
        )
        return
    yield ok("CA", f"{url} answers")
    yield from _compare_clocks(date, patient.now_s)


def _compare_clocks(date: str | None, now_s: float) -> Iterator[Finding]:
    try:
        theirs_s = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return  # not all say what time it is
    apart_s = now_s - theirs_s
    if abs(apart_s) > CLOCK_APART_S:
        word = "ahead of" if apart_s > 0 else "behind"
        yield bad("clock", f"{abs(apart_s):.0f} s {word} the CA's", "set both clocks, and keep them right with NTP")
