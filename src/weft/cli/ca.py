"""``weft ca``: the embedded certificate authority, and getting certificates from it or from a real step-ca."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from weft.cli.console import err, out
from weft.cli.options import Json
from weft.cli.secret_input import STDIN, read_secret
from weft.cli.tables import human_time, print_json
from weft.errors import UsageError
from weft.limits import CERTIFICATE_LIFETIME_S, TOKEN_BYTES_MAX
from weft.security.authority import ROOT_KEY_ADVICE, Authority, AuthoritySettings, read_root_key
from weft.security.authority import rehearse as rehearse_rotation
from weft.security.authority import rotate as rotate_authority
from weft.security.certificates import Names, end_s, fingerprint
from weft.security.credentials import CertificateStore, Credentials
from weft.security.enrolment import enrol as enrol_at
from weft.security.enrolment import renew as renew_at
from weft.security.files import ca_directory
from weft.security.identity import Identity
from weft.security.identity import client as client_identity
from weft.security.identity import node as node_identity
from weft.security.issuing import allow as allow_name
from weft.security.issuing import check_not_revoked, provisioner_of, read_revoked
from weft.security.issuing import revoke as revoke_name
from weft.security.rotation import LocalSource
from weft.security.tokens import read_token_file, read_token_untrusted

app = typer.Typer(help="The mesh's certificates: its own CA, or a step-ca.", no_args_is_help=True)

Data = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="The directory with the CA (DIR/ca).", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A node's id, or a client's name.", show_default=False)]
Client = Annotated[bool, typer.Option("--client", help="The certificate is for a client, not for a node.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="HOST",
        help="A DNS name or address of the node; may be given again.",
        show_default="loopback, for nodes",
    ),
]
Certificates = Annotated[
    Path, typer.Option("--to", metavar="DIR", help="The directory for key and certificate.", show_default=False)
]

URL = "https://127.0.0.1:7443"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@app.command()
def init(
    data: Data,
    mesh: Annotated[str, typer.Option(metavar="NAME", help="The mesh's name, a part of every identity.")] = "weft",
    url: Annotated[
        str, typer.Option(metavar="https://HOST:PORT", help="The address at which nodes reach the CA.")
    ] = URL,
    lifetime: Annotated[
        str | None, typer.Option(metavar="AGE", help="Lifetime of certificates, like 12h.", show_default="24h")
    ] = None,
    offline_root: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the root's key here, off this machine.", show_default="beside the CA"),
    ] = None,
    json: Json = False,
) -> None:
    """Make a CA: a root, an intermediate, and the key that signs enrolment tokens.

    Only 'weft ca rotate' needs the root's key. Anybody who has it can pose as every node: --offline-root keeps it off
    this machine, on a stick or a mounted safe.
    """
    settings = AuthoritySettings(mesh, url, _lifetime_s(lifetime))
    authority = Authority.create(ca_directory(data), settings, time.time(), offline_root)
    if offline_root is None:
        err.print(f"{escape(ROOT_KEY_ADVICE.format(file=authority.root_key_file))}", soft_wrap=True)
    _show(authority, json)


@app.command()
def show(data: Data, json: Json = False) -> None:
    """Show the CA: its root's fingerprint, where it is, how long it lasts."""
    _show(_authority(data), json)


@app.command()
def token(data: Data, name: Name, client: Client = False, host: Hosts = None, json: Json = False) -> None:
    """Print a token with which a new node or client gets its certificate (weft ca enrol). It works once, within five
    minutes.
    """
    authority = _authority(data)
    names = _names(authority, name, client, host)
    made = provisioner_of(authority).make(names, secrets.token_hex(16), time.time())
    if json:
        print_json({"token": made.reveal(), "url": authority.settings.url, "fingerprint": authority.fingerprint})
    else:
        typer.echo(made.reveal())


@app.command()
def enrol(
    to: Certificates,
    token: Annotated[
        str, typer.Option(metavar="-", help="'-' reads the token from standard input.", show_default=True)
    ] = STDIN,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the token, readable only by its owner.", show_default=False),
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="https://HOST:PORT", help="The CA.", show_default="as the token says")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="64HEX", help="Of its root.", show_default="as the token says")
    ] = None,
    json: Json = False,
) -> None:
    """Get a certificate in exchange for a token, from this CA or from a step-ca."""
    secret = read_secret(token, TOKEN_BYTES_MAX + 1, "--token") if token_file is None else read_token_file(token_file)
    found = enrol_at(secret, time.time(), url=url, root_fingerprint=fingerprint)
    store = CertificateStore(to)
    store.save_ca_url(url or str(read_token_untrusted(secret).ca))
    store.save(found)
    _show_certificate(found, json)


@app.command()
def renew(
    to: Certificates,
    url: Annotated[
        str | None, typer.Option(metavar="https://HOST:PORT", help="The CA.", show_default="where it came from")
    ] = None,
    json: Json = False,
) -> None:
    """Renew a certificate now. Nodes renew theirs by themselves; run this twice a day for a client's."""
    store = CertificateStore(to)
    place = url or store.load_ca_url()
    if place is None:
        raise UsageError(f"{to} does not say where its certificate came from: give --url")
    found = renew_at(store, place, time.time())
    store.save(found)
    _show_certificate(found, json)


@app.command()
def issue(
    data: Data, name: Name, to: Certificates, client: Client = False, host: Hosts = None, json: Json = False
) -> None:
    """Make a key and a certificate on the CA's machine. No token and no running CA are needed."""
    authority = _authority(data)
    names = _names(authority, name, client, host)
    check_not_revoked(authority.directory, names.identity)
    found = LocalSource(authority).enrol(names, time.time())
    store = CertificateStore(to)
    store.save_ca_url(authority.settings.url)
    store.save(found)
    _show_certificate(found, json)


@app.command()
def revoke(data: Data, name: Name, client: Client = False) -> None:
    """Stop giving certificates to a name, new or renewed. The certificate it has ends within a day."""
    authority = _authority(data)
    revoke_name(authority.directory, _identity(authority, name, client))
    _tell(f"{_kind(client)} {name} gets no more certificates; one that it has ends within a day")


@app.command()
def allow(data: Data, name: Name, client: Client = False) -> None:
    """Allow a revoked name again, once its last certificate has ended."""
    authority = _authority(data)
    allow_name(authority.directory, _identity(authority, name, client))
    _tell(f"{_kind(client)} {name} may get certificates again")


@app.command()
def rotate(
    data: Data,
    rehearse: Annotated[bool, typer.Option("--rehearse", help="Try every step and change nothing.")] = False,
    root_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The root's key.", show_default="beside the CA")
    ] = None,
    json: Json = False,
) -> None:
    """Make a new intermediate. Existing certificates stay valid; renewals bring the new intermediate. Needs the root's
    key.
    """
    authority = _authority(data)
    turn = rehearse_rotation if rehearse else rotate_authority
    signer = turn(authority, read_root_key(root_key or authority.root_key_file), time.time())
    facts = {"rotated": not rehearse, "intermediate": fingerprint(signer.certificate)}
    if json:
        print_json(facts)
    elif rehearse:
        err.print("rehearsed: a new intermediate verifies; nothing was changed")
    else:
        err.print(f"rotated: the intermediate is now {facts['intermediate']}")


@app.command()
def serve(
    data: Data,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to serve it.")] = "127.0.0.1:7443",
) -> None:
    """Serve the CA until SIGTERM or Ctrl-C: sign, renew, root and health, as step-ca has them. Prints 'ready'."""
    from weft.cli.ca_serving import serve as serve_authority

    serve_authority(_authority(data), listen)


# --- what they share ---------------------------------------------------------------------------------------------


def _authority(data: Path) -> Authority:
    return Authority.open(ca_directory(data))


def _identity(authority: Authority, name: str, client: bool) -> Identity:
    mesh = authority.settings.mesh
    return client_identity(mesh, name) if client else node_identity(mesh, name)


def _kind(client: bool) -> str:
    return "client" if client else "node"


def _tell(done: str) -> None:
    err.print(escape(done), soft_wrap=True)


def _names(authority: Authority, name: str, client: bool, hosts: list[str] | None) -> Names:
    """A node's certificate needs at least one name or address that clients connect to."""
    return Names(_identity(authority, name, client), tuple(hosts or (() if client else LOOPBACK)))


def _lifetime_s(text: str | None) -> int:
    if text is None:
        return CERTIFICATE_LIFETIME_S
    from weft.cli.log.input import parse_age_us

    return parse_age_us(text) // 1_000_000


def _show(authority: Authority, json: bool) -> None:
    settings = authority.settings
    _print(
        {
            "mesh": settings.mesh,
            "url": settings.url,
            "fingerprint": authority.fingerprint,
            "lifetime_s": settings.lifetime_s,
            "root_ends": _time(end_s(authority.root)),
            "intermediate_ends": _time(end_s(authority.signer.certificate)),
            "revoked": sorted(each.uri for each in read_revoked(authority.directory)),
        },
        json,
    )


def _show_certificate(found: Credentials, json: bool) -> None:
    _print(
        {
            "identity": found.identity.uri,
            "hosts": list(found.hosts),
            "ends": _time(found.end_s),
            "fingerprint": fingerprint(found.leaf),
        },
        json,
    )


def _print(facts: dict[str, Any], json: bool) -> None:
    if json:
        print_json(facts)
        return
    for name, value in facts.items():
        text = ", ".join(value) if isinstance(value, list) else str(value)
        out.print(f"{name}: {escape(text)}", soft_wrap=True)


def _time(unix_s: float) -> str:
    return human_time(int(unix_s) * 1_000_000)
