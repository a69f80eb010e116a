"""Where a job connects, and with which key: the options that source and sink share, and a client for each process.

Spark pickles a ``Connection`` to planners and executors, and logs options on the way. So it holds no secrets, only
where to find them. Everything is looked up on the machine that uses it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from weft.client import Options, TlsFiles
from weft.client.blocking import Client, connect
from weft.client.connecting import tls_files
from weft.client.options import parse_nodes
from weft.contexts import chosen_context
from weft.errors import UsageError
from weft.references import find_file, read_secret
from weft.spark.option_values import BadOption, parse_flag, parse_list

CLIENT_OPTIONS: Final = Options()
CONNECTION_OPTIONS: Final = ("nodes", "context", "token", "tlsRoot", "tlsCertificate", "tlsKey", "insecure")


@dataclass(frozen=True, slots=True)
class Connection:
    """Nodes and security as given in options. The rest comes from the named context, or else from the current one."""

    nodes: tuple[str, ...] = ()
    context: str | None = None
    token: str | None = None  # file:/path or env:NAME, never the key itself
    tls_root: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        try:
            if self.nodes:
                parse_nodes(self.nodes)
        except UsageError as error:
            raise BadOption(f"option nodes: {error}") from None
        if self.token is not None and not self.token.startswith(("file:", "env:")):
            raise BadOption(
                "option token is file:/path or env:NAME, where to find the key: "
                "Spark logs options and sends them about, so a key must not stand in one"
            )
        if self.tls_root is None and (self.tls_certificate, self.tls_key) != (None, None):
            raise BadOption("options tlsCertificate and tlsKey need tlsRoot: whom to trust")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise BadOption("options tlsCertificate and tlsKey go together")
        if self.insecure and self.tls_root is not None:
            raise BadOption("options insecure and tlsRoot contradict each other: give one of them")
        if self.nodes and not (self.insecure or self.tls_root or self.context):
            raise BadOption(
                "option nodes needs security: give tlsRoot (with tlsCertificate and tlsKey) or context, "
                "or insecure=true for plain text on loopback"
            )

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Connection:
        """From options named as in CONNECTION_OPTIONS (see ``option_values.by_name``); other options are ignored."""
        return cls(
            nodes=parse_list(options.get("nodes", "")),
            context=options.get("context"),
            token=options.get("token"),
            tls_root=options.get("tlsRoot"),
            tls_certificate=options.get("tlsCertificate"),
            tls_key=options.get("tlsKey"),
            insecure=parse_flag("insecure", options.get("insecure", "false")),
        )

    def addresses(self) -> tuple[str, ...]:
        """The addresses of the nodes to use."""
        return self.nodes or parse_nodes(chosen_context(self.context, os.environ).nodes)

    def client(self, *nodes: str) -> Client:
        """This process' client for these nodes, or for all. It is shared: do not close it."""
        access = self.access()
        key = (os.getpid(), nodes or self.addresses(), access)
        with _LOCK:
            client = _CLIENTS.get(key)
            if client is None or client.is_closed:  # somebody closed it, against the rule
                client = _CLIENTS[key] = access.connect(key[1])
            return client

    def new_client(self, *nodes: str, options: Options | None = None) -> Client:
        """A client that is not shared: the caller closes it."""
        return self.access().connect(nodes or self.addresses(), options)

    def secret(self) -> bytes:
        """A secret derived from this connection's API key. Without a key, anybody can compute it."""
        return sha256(b"weft spark\0" + (self.access().token or "").encode()).digest()

    def access(self) -> Access:
        """Look up this connection's security on this machine, now: a file may have been replaced."""
        token = None if self.token is None else read_secret("token", self.token)
        if self.insecure:
            return Access(token, None, insecure=True)
        if self.tls_root is not None:
            certificate, key = (
                None if each is None else find_file(each) for each in (self.tls_certificate, self.tls_key)
            )
            return Access(token, TlsFiles(find_file(self.tls_root), certificate, key), insecure=False)
        found = chosen_context(self.context, os.environ)
        return Access(found.token if token is None else token, tls_files(found), insecure=found.insecure)


@dataclass(frozen=True, slots=True)
class Access:
    """A connection's security, as looked up on this machine. It is part of a client's key, so a new API key makes a
    new client."""

    token: str | None = field(repr=False)
    tls: TlsFiles | None
    insecure: bool

    def connect(self, nodes: tuple[str, ...], options: Options | None = None) -> Client:
        """A client for these nodes only: the job's plan names them, so the client must not use other members."""
        return connect(
            nodes,
            insecure=self.insecure,
            tls=self.tls,
            token=self.token,
            name="spark",
            learns=False,
            options=options or CLIENT_OPTIONS,
        )


# The key has the process id: connections and threads do not survive a fork, and Spark forks its workers.
_CLIENTS: Final[dict[tuple[int, tuple[str, ...], Access], Client]] = {}
_LOCK: Final = threading.Lock()
