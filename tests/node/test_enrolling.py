"""Where a node's first certificate comes from, and each wrong thing in words that say what to do."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.node.secured import authority_of, secure_config, secured, token_for
from weft.errors import UsageError, WeftError
from weft.model import NodeId
from weft.node.enrolling import hosts_for, is_ca_here, read_token, settle_credentials
from weft.node.runtime import Node
from weft.security import (
    Authority,
    AuthoritySettings,
    CertificateStore,
    LocalSource,
    Names,
    Secret,
    ca_directory,
    node,
    tls_directory,
)

NOW_S = 1_800_000_000.0


def settle(data: Path, node_id: str = "a", token: Secret[str] | None = None, **settings: Any) -> Any:
    return settle_credentials(secure_config(data, node_id, **settings), NodeId(node_id), token, NOW_S)


def test_the_first_node_makes_a_ca_and_keeps_it(tmp_path: Path) -> None:
    made = settle(tmp_path, listen__ca="127.0.0.1:7443", security__certificate_lifetime_s=60)
    again = settle(tmp_path)
    assert made.authority.fingerprint == again.authority.fingerprint
    assert again.authority.settings == AuthoritySettings("weft", "https://127.0.0.1:7443", 60)
    assert again.current.identity == node("weft", "a")
    assert set(again.current.hosts) == {"127.0.0.1", "localhost", "::1"}


@pytest.mark.parametrize(
    ("listen", "more", "expected"),
    [
        ("127.0.0.1:7400", (), ("127.0.0.1", "localhost", "::1")),
        ("10.0.0.1:7400", (), ("10.0.0.1",)),
        ("10.0.0.1:7400", ("a.example.org",), ("10.0.0.1", "a.example.org")),
        ("0.0.0.0:7400", ("a.example.org",), ("10.0.0.9", "a.example.org", "localhost", "127.0.0.1", "::1")),
    ],
)
def test_the_hosts_of_a_certificate(
    tmp_path: Path, listen: str, more: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    told = {"listen__advertise": "10.0.0.9:0"} if listen.startswith("0.") else {}
    assert hosts_for(secure_config(tmp_path, "a", listen__grpc=listen, security__hosts=more, **told)) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"peers": ["127.0.0.1:1"]}, "to join others and has no certificate of their mesh: `weft ca token NODE_ID"),
        ({"security__ca_url": "https://127.0.0.1:1"}, "has no certificate yet: `weft ca token NODE_ID"),
        ({"listen__ca": "0.0.0.0:7443"}, r"nodes cannot be sent to 0.0.0.0:7443 for certificates"),
        ({"security__token_file": "/absent/token"}, "there is no file /absent/token"),
    ],
)
async def test_what_is_missing_is_told_before_anything_is_written(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    config = secure_config(tmp_path / "data", "a", **settings)
    with pytest.raises(UsageError, match=message):
        is_ca_here(config, read_token(config))
    with pytest.raises(UsageError, match=message):
        await Node(config).start()
    assert not (tmp_path / "data").exists()


def test_a_ca_of_another_mesh_is_not_used(tmp_path: Path) -> None:
    Authority.create(ca_directory(tmp_path), AuthoritySettings("plant", "https://127.0.0.1:1"), NOW_S)
    with pytest.raises(UsageError, match="is of mesh plant, the node is to be of weft"):
        settle(tmp_path)


@pytest.mark.parametrize(
    ("identity", "fingerprint", "begun_s", "message"),
    [
        ("a", None, NOW_S - 1, ""),
        ("b", None, NOW_S - 1, "certificate is of node b, but its owner says it is node a"),
        ("a", "ab" * 32, NOW_S - 1, "is of another CA than --ca-fingerprint names"),
        ("a", None, NOW_S - 100_000, "node a has a certificate that is no longer valid: `weft ca token"),
    ],
    ids=["good", "another node's", "another CA's", "expired"],
)
def test_a_certificate_from_elsewhere(
    tmp_path: Path, identity: str, fingerprint: str | None, begun_s: float, message: str
) -> None:
    ca = Authority.create(tmp_path / "elsewhere", AuthoritySettings("weft", "https://127.0.0.1:1"), begun_s)
    store = CertificateStore(tls_directory(tmp_path))
    store.save(LocalSource(ca).enrol(Names(node("weft", identity)), begun_s))
    store.save_ca_url("https://127.0.0.1:1")
    if not message:
        settled = settle(tmp_path, peers=["127.0.0.1:1"])
        assert (settled.authority, settled.source.url) == (None, "https://127.0.0.1:1")
        return
    with pytest.raises(WeftError, match=message):
        settle(tmp_path, security__ca_fingerprint=fingerprint)


def test_a_token_is_read_from_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    file.chmod(0o644)
    config = secure_config(tmp_path / "data", "a", security__token_file=file)
    with pytest.raises(WeftError, match="is open to others"):
        read_token(config)
    file.chmod(0o600)
    found = read_token(config)
    assert found is not None and found.reveal() == "s3cret"


@pytest.mark.req("SEC-01")
async def test_tokens_that_do_not_work(tmp_path: Path) -> None:
    """Used, for another node, of another CA, from a CA that is not there: a node does not start, and says why."""

    async with secured(tmp_path, time.time(), "a") as (first,):
        ca = authority_of(first)
        other = Authority.create(tmp_path / "ca", AuthoritySettings("weft", "https://127.0.0.1:1"), time.time())
        url = f"https://{first.protection.ca_address}"
        used = token_for(ca, "b", time.time())
        await asyncio.to_thread(
            settle_credentials,
            secure_config(tmp_path / "b", "b", security__ca_url=url),
            NodeId("b"),
            used,
            time.time(),
        )
        cases = [
            ("b", used, url, {}, "used"),
            (
                "c",
                token_for(ca, "d", time.time()),
                url,
                {},
                "the token is for node d of mesh weft, this is to be node c of mesh weft; the token was not used",
            ),
            ("c", token_for(other, "c", time.time()), url, {}, "another fingerprint|refused"),
            (
                "c",
                token_for(ca, "c", time.time()),
                url,
                {"security__ca_fingerprint": "ab" * 32},
                "refused|fingerprint",
            ),
            ("c", token_for(ca, "c", time.time() - 1000), url, {}, "expired"),
            ("c", token_for(ca, "c", time.time()), "https://127.0.0.1:1", {}, "cannot reach the CA"),
            ("c", Secret("nonsense"), url, {}, "token"),
        ]
        for number, (name, token, place, settings, message) in enumerate(cases):
            config = secure_config(
                tmp_path / f"{number}", name, security__ca_url=place, security__token=token, **settings
            )
            with pytest.raises(WeftError, match=message) as caught:
                await Node(config).start()
            assert token.reveal() not in str(caught.value) or token.reveal() == "nonsense"
