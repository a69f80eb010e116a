"""The certificate a node starts with: from the CA in its own data directory, or from one elsewhere (SEC-01).

To start the first node of a mesh, one need not know any of this: it makes a CA beside its log. Each further node brings
a token of that CA, once. Everything here blocks: it waits for disks and for a CA.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.errors import UsageError
from weft.model import NodeId, parse_node_id
from weft.node.config import NodeConfig
from weft.security import (
    Authority,
    AuthoritySettings,
    CertificateRefused,
    CertificateStore,
    Credentials,
    Kind,
    LocalSource,
    Names,
    RemoteSource,
    Secret,
    Source,
    Usage,
    ca_directory,
    check_node,
    client,
    enrol,
    node,
    read_chain_untrusted,
    tls_directory,
    verify_untrusted,
)
from weft.security.authority import SETTINGS
from weft.security.certificates import fingerprint
from weft.security.tokens import read_token_file, read_token_untrusted

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
CA_URL: Final = "https://127.0.0.1:7443"  # in tokens, until somebody says where the CA is served
HOW_TO_ENROL: Final = "`weft ca token NODE_ID --data DIR`, where the CA is, gives a token for --token"
CLIENT: Final = "local"  # the client certificate for commands on this machine


@dataclass(frozen=True, slots=True)
class Settled:
    """What a node has, and where it gets more from. ``authority`` is the CA, if it is here."""

    store: CertificateStore
    current: Credentials
    source: Source
    authority: Authority | None


def read_token(config: NodeConfig) -> Secret[str] | None:
    """The enrolment token from the configuration, as text or from a file."""
    security = config.security
    if security.token is not None or security.token_file is None:
        return security.token
    return read_token_file(security.token_file)


def wanted_node_id(config: NodeConfig, token: Secret[str] | None) -> NodeId | None:
    """The id that the configuration or the token asks for. Raise UsageError if the two differ, or TokenRefused.

    Called before anything is written or sent: a token is valid once, and a slip must not use it up.
    """
    wanted = config.node.id
    if token is None:
        return wanted
    granted = read_token_untrusted(token).names.identity
    if granted.kind is not Kind.NODE or granted.mesh != config.node.mesh or wanted not in (None, granted.name):
        raise UsageError(
            f"the token is for {granted.kind} {granted.name} of mesh {granted.mesh}, this is to be node "
            f"{wanted or granted.name} of mesh {config.node.mesh}; the token was not used"
        )
    return parse_node_id(granted.name)


def settle_credentials(config: NodeConfig, node_id: NodeId, token: Secret[str] | None, now_s: float) -> Settled:
    """Raise UsageError for what somebody has to decide, EnrolmentFailed if a CA refuses. ``now_s``: Unix time."""
    store = CertificateStore(tls_directory(config.node.data))
    if not is_ca_here(config, token):
        return _from_elsewhere(config, node_id, store, token, now_s)
    authority = _own_authority(config, now_s)
    source = LocalSource(authority)
    current = source.enrol(Names(node(config.node.mesh, node_id), hosts_for(config)), now_s)
    store.save(current)
    return Settled(store, current, source, authority)


def settle_client(data: Path, authority: Authority, now_s: float) -> Settled:
    """A certificate for commands on the CA's own machine; the node keeps it fresh."""
    store = CertificateStore(data / "client")
    source = LocalSource(authority)
    current = source.enrol(Names(client(authority.settings.mesh, CLIENT)), now_s)
    store.save(current)
    return Settled(store, current, source, authority)


def hosts_for(config: NodeConfig) -> tuple[str, ...]:
    """The names by which clients may reach this node: where it listens, its advertised address, and what is
    configured."""
    listen, advertised = config.listen.grpc, config.listen.advertise
    listened = () if listen.is_wildcard else (listen.host,)
    told = () if advertised is None else (advertised.host,)
    near = LOOPBACK if listen.is_loopback or listen.is_wildcard else ()
    return tuple(dict.fromkeys((*listened, *told, *config.security.hosts, *near)))


def is_ca_here(config: NodeConfig, token: Secret[str] | None) -> bool:
    """Whether the certificate comes from a CA in the data directory, which exists or will be made.

    Changes nothing, so that one can still add a forgotten option. Raise UsageError.
    """
    store = CertificateStore(tls_directory(config.node.data))
    if token is not None:
        return False
    if config.security.ca_url is not None:
        if store.load() is None:
            raise UsageError(f"this node has no certificate yet: {HOW_TO_ENROL}")
        return False
    if (ca_directory(config.node.data) / SETTINGS).exists():
        return True
    if store.load_ca_url() is not None:
        return False
    if config.peers:
        raise UsageError(
            f"this node is to join others and has no certificate of their mesh: {HOW_TO_ENROL}; if the CA is to be "
            "here, make it with `weft ca init`"
        )
    return bool(_own_url(config))


def _own_authority(config: NodeConfig, now_s: float) -> Authority:
    """The CA in the data directory, which is made if this is the first node."""
    directory = ca_directory(config.node.data)
    if not (directory / SETTINGS).exists():
        settings = AuthoritySettings(config.node.mesh, _own_url(config), int(config.security.certificate_lifetime_s))
        return Authority.create(directory, settings, now_s)
    authority = Authority.open(directory)
    if authority.settings.mesh != config.node.mesh:
        raise UsageError(
            f"the CA in {directory} is of mesh {authority.settings.mesh}, the node is to be of {config.node.mesh}"
        )
    return authority


def _own_url(config: NodeConfig) -> str:
    """Where tokens of a CA that is made here will send nodes."""
    listen = config.listen.ca
    if listen is None:
        return CA_URL
    if listen.is_wildcard:
        raise UsageError(
            f"nodes cannot be sent to {listen} for certificates: make the CA first, with the name they know "
            "(`weft ca init --url https://HOST:PORT`)"
        )
    return f"https://{listen}"


def _from_elsewhere(
    config: NodeConfig, node_id: NodeId, store: CertificateStore, token: Secret[str] | None, now_s: float
) -> Settled:
    current = store.load()
    if current is None or not _is_good(current, now_s):
        if token is None:
            what = "has no certificate yet" if current is None else "has a certificate that is no longer valid"
            raise UsageError(f"node {node_id} {what}: {HOW_TO_ENROL}")
        url = config.security.ca_url
        wanted_node_id(config, token)
        current = enrol(token, now_s, url=url, root_fingerprint=config.security.ca_fingerprint)
        check_node(current.identity, config.node.mesh, node_id)
        store.save_ca_url(url or str(read_token_untrusted(token).ca))  # first, so that no certificate is without its CA
        store.save(current)
    check_node(current.identity, config.node.mesh, node_id)
    _check_root(config, current)
    place = config.security.ca_url or store.load_ca_url()
    if place is None:
        raise UsageError("where the certificate is renewed is not known: give the CA's address with --ca")
    return Settled(store, current, RemoteSource(store, place), None)


def _is_good(current: Credentials, now_s: float) -> bool:
    try:
        verify_untrusted(current.chain_pem, current.root_pem, Usage.SERVER, now_s)
    except CertificateRefused:
        return False
    return True


def _check_root(config: NodeConfig, current: Credentials) -> None:
    wanted = config.security.ca_fingerprint
    found = fingerprint(read_chain_untrusted(current.root_pem)[0])
    if wanted is not None and wanted.replace(":", "").lower() != found:
        raise UsageError("the certificate in use is of another CA than --ca-fingerprint names", found=found)
