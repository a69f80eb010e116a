"""``weft context``: adding, listing, using, showing, removing; and a file that only its owner reads."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.commands import Weft
from weft.contexts import (
    CONTEXTS_FILE_BYTES_MAX,
    Context,
    Contexts,
    _lines,
    contexts_path,
    read_contexts,
    write_contexts,
)
from weft.errors import UsageError


def test_the_first_context_is_the_current_one(weft: Weft) -> None:
    assert weft("context", "add", "dev", "--node", "127.0.0.1:7400", "--insecure").status == 0
    assert weft("context", "add", "prod", "--node", "a:7400", "--node", "b:7400").status == 0
    shown = weft("context", "list", "--json").document
    assert [(each["name"], each["current"], each["nodes"], each["insecure"]) for each in shown] == [
        ("dev", True, ["127.0.0.1:7400"], True),
        ("prod", False, ["a:7400", "b:7400"], False),
    ]
    assert "*  dev   127.0.0.1:7400  plain text" in weft("context", "list").out


def test_another_can_be_used(weft: Weft) -> None:
    weft("context", "add", "dev", "--node", "a:7400")
    weft("context", "add", "prod", "--node", "b:7400")
    assert weft("context", "use", "prod").status == 0
    assert weft("context", "show", "--json").document["name"] == "prod"
    weft("context", "add", "third", "--node", "c:7400", "--use")
    assert weft("context", "show", "--json").document["name"] == "third"


def test_a_token_is_kept_and_not_shown(weft: Weft) -> None:
    weft("context", "add", "prod", "--node", "a:7400", "--token", "s3cret")
    for shown in (
        weft("context", "show", "prod"),
        weft("context", "show", "--json"),
        weft("context", "list", "--json"),
    ):
        assert "s3cret" not in shown.out
        assert "***" in shown.out
    assert read_contexts(weft.config / "contexts.toml").contexts["prod"].token == "s3cret"


def test_a_token_is_read_from_standard_input(weft: Weft) -> None:
    assert weft("context", "add", "prod", "--node", "a:7400", "--token", "-", stdin=b"s3cret\n").status == 0
    assert read_contexts(weft.config / "contexts.toml").contexts["prod"].token == "s3cret"
    refused = weft("context", "add", "none", "--node", "a:7400", "--token", "-")
    assert refused.status == 2 and "--token is -, and there is nothing on standard input" in refused.err


def test_only_the_owner_may_read_the_file(weft: Weft) -> None:
    weft("context", "add", "prod", "--node", "a:7400", "--token", "s3cret")
    weft("context", "add", "dev", "--node", "a:7400")
    assert stat.S_IMODE((weft.config / "contexts.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE(weft.config.stat().st_mode) == 0o700
    assert [file.name for file in weft.config.iterdir()] == ["contexts.toml"]


def test_certificates_are_remembered_by_where_they_are(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root.pem").write_text("PEM")
    monkeypatch.chdir(tmp_path)
    weft("context", "add", "prod", "--node", "a:7400", "--tls-root", "root.pem")
    assert weft("context", "show", "--json").document["tls_root"] == str(tmp_path / "root.pem")


def test_a_removed_context_is_gone(weft: Weft) -> None:
    weft("context", "add", "dev", "--node", "a:7400")
    assert weft("context", "remove", "dev").status == 0
    assert weft("context", "list").err == "no contexts yet: weft context add NAME --node HOST:PORT\n"
    assert "there is no current context" in weft("context", "show").err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("use", "absent"), 1, "no context is called 'absent' (there are: dev)"),
        (("show", "absent"), 1, "no context is called 'absent'"),
        (("remove", "absent"), 1, "no context is called 'absent'"),
        (("add", "a b", "--node", "a:7400"), 1, "is not a name for a context"),
        (("add", "new", "--node", "nonsense"), 1, "is not host:port"),
        (("add", "new", "--node", "a:1", "--tls-root", "/absent.pem"), 2, "absent.pem"),
        (("add", "new"), 2, "--node"),
    ],
)
def test_mistakes_are_told(weft: Weft, arguments: tuple[str, ...], status: int, message: str) -> None:
    weft("context", "add", "dev", "--node", "a:7400")
    before = (weft.config / "contexts.toml").read_text()
    outcome = weft("context", *arguments)
    assert outcome.status == status
    assert message in outcome.err
    assert (weft.config / "contexts.toml").read_text() == before


def test_what_contradicts_itself_is_refused(weft: Weft, tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    pem.write_text("PEM")
    both = weft("context", "add", "new", "--node", "a:1", "--insecure", "--tls-root", pem)
    assert (both.status, "cannot be combined with --tls-root" in both.err) == (2, True)
    half = weft("context", "add", "new", "--node", "a:1", "--tls-certificate", pem)
    assert (half.status, "go together" in half.err) == (2, True)


@pytest.mark.parametrize(
    "content",
    [b"\xff", b"current = ", b"surprise = 1", b"[contexts.a]\nnodes = 'a'", b"#" * (CONTEXTS_FILE_BYTES_MAX + 1)],
)
def test_a_file_that_is_not_ours_is_told(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "contexts.toml"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=r"contexts\.toml"):
        read_contexts(file)


def test_a_file_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        write_contexts(tmp_path / "file" / "contexts.toml", Contexts())
    with pytest.raises(UsageError, match="cannot read"):
        read_contexts(tmp_path)


def test_where_the_file_is() -> None:
    assert contexts_path({"WEFT_CONFIG_DIR": "/etc/x"}) == Path("/etc/x/contexts.toml")
    assert contexts_path({}) == Path.home() / ".config" / "weft" / "contexts.toml"


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
CONTEXTS = st.builds(
    Context,
    nodes=st.lists(TEXT).map(tuple),
    insecure=st.booleans(),
    token=st.none() | TEXT,
    tls_root=st.none() | TEXT,
    tls_certificate=st.none() | TEXT,
    tls_key=st.none() | TEXT,
)


@given(st.builds(Contexts, current=st.none() | NAMES, contexts=st.dictionaries(NAMES, CONTEXTS, max_size=3)))
def test_whatever_is_written_is_read_again(contexts: Contexts) -> None:
    text = "".join(f"{line}\n" for line in _lines(contexts))
    assert msgspec.convert(tomllib.loads(text), Contexts) == contexts


def test_without_any_context_one_is_to_be_added(weft: Weft) -> None:
    assert weft("context", "show").err == (
        "weft: there is no current context: weft context add NAME --node HOST:PORT\n"
    )
