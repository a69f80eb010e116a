"""Certificates: whose they are, how long they last, and where the root's key is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.cli.examination import Finding, Patient, bad, ok, warning
from weft.cli.tables import human_time
from weft.node.enrolling import HOW_TO_ENROL
from weft.security.authority import ROOT_KEY_ADVICE, SETTINGS, Authority
from weft.security.certificates import end_s
from weft.security.credentials import CertificateStore, Credentials
from weft.security.errors import CertificateRefused
from weft.security.files import ca_directory, tls_directory
from weft.security.rotation import RENEW_AT
from weft.security.verification import Usage, check_node, verify_untrusted

AUTHORITY_LEFT_S: Final = 90 * 24 * 3600  # of a CA's own certificates: replacing a root is work
OVERDUE: Final = (1 + RENEW_AT) / 2  # of a certificate's life: renewal has failed for hours by then
US_PER_S: Final = 1_000_000
NAME: Final = "certificates"


def certificates(patient: Patient) -> Iterator[Finding]:
    config = patient.config
    if config.insecure:
        yield ok(NAME, "none: the node is insecure")
        return
    authority = authority_in(config.node.data)
    current = CertificateStore(tls_directory(config.node.data)).load()
    if current is None:
        yield _without(patient, authority)
    else:
        yield _of_node(patient, current, authority)
    if authority is not None:
        yield from _of_authority(authority, patient.now_s)


def root_key(patient: Patient) -> Iterator[Finding]:
    authority = authority_in(patient.config.node.data)
    if authority is None:
        yield ok("root key", "the CA is not on this machine")
    elif authority.root_key_file.exists():
        advice = ROOT_KEY_ADVICE.format(file=authority.root_key_file)
        yield warning("root key", f"{authority.root_key_file} is beside the CA", advice)
    else:
        yield ok("root key", "it is not beside the CA")


def authority_in(data: Path) -> Authority | None:
    directory = ca_directory(data)
    return Authority.open(directory) if (directory / SETTINGS).exists() else None


def _without(patient: Patient, authority: Authority | None) -> Finding:
    config = patient.config
    if authority is None and (config.peers or config.security.ca_url):
        return bad(NAME, "this node has no certificate of its mesh", f"give it a token: {HOW_TO_ENROL}")
    return ok(NAME, "none yet: the first start makes them")


def _of_node(patient: Patient, current: Credentials, authority: Authority | None) -> Finding:
    if patient.config.node.id is not None:
        check_node(current.identity, patient.config.node.mesh, patient.config.node.id)
    told = f"{current.identity} lasts until {human_time(int(current.end_s) * US_PER_S)}"
    try:
        verify_untrusted(current.chain_pem, current.root_pem, Usage.SERVER, patient.now_s)
    except CertificateRefused as error:
        if authority is not None and not patient.is_running:
            return ok(NAME, f"{error}; the next start makes a new one, the CA is here")
        return bad(NAME, str(error), f"find out why it was not renewed, then enrol again: {HOW_TO_ENROL}")
    if patient.is_running and is_overdue(current.begin_s, current.end_s, patient.now_s):
        return warning(NAME, f"{told}, and should have been renewed by now", "check whether the CA can be reached")
    return ok(NAME, told)


def is_overdue(begin_s: float, end_s: float, now_s: float) -> bool:
    """Whether a certificate should have been renewed by now: that happens at RENEW_AT of its life."""
    return now_s >= begin_s + OVERDUE * (end_s - begin_s)


def _of_authority(authority: Authority, now_s: float) -> Iterator[Finding]:
    for name, certificate, advice in (
        ("root", authority.root, "make a new CA in time, and enrol all nodes again"),
        ("intermediate", authority.signer.certificate, "weft ca rotate makes a new one"),
    ):
        ends = end_s(certificate)
        told = f"the CA's {name} lasts until {human_time(int(ends) * US_PER_S)}"
        if now_s >= ends:
            yield bad(NAME, told, advice)
        elif now_s >= ends - AUTHORITY_LEFT_S:
            yield warning(NAME, told, advice)
        else:
            yield ok(NAME, told)
