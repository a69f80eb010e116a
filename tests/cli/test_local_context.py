"""The context that ``weft up`` leaves behind, beside those that people have made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weft.cli.local_context import remember
from weft.contexts import Context, Contexts, read_contexts, write_contexts
from weft.node.first_key import FirstKey
from weft.node.protection import ClientFiles
from weft.security import Secret

PLACE = Path("/a/client")
FILES = ClientFiles(PLACE / "root.pem", PLACE / "identity.pem", Secret("weft_k1_00"), FirstKey(PLACE.parent, PLACE))
KNOWN = replace(FILES, key=None)


def test_the_first_is_the_default_and_the_current_one(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    assert remember(path, "a", "127.0.0.1:1", FILES) == f"context default in {path} connects to this node"
    made = Context(("127.0.0.1:1",), False, "weft_k1_00", str(FILES.root), str(FILES.identity), str(FILES.identity))
    assert read_contexts(path) == Contexts("default", {"default": made})


def test_another_port_is_brought_up_to_date_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    remember(path, "a", "127.0.0.1:1", FILES)
    assert remember(path, "a", "127.0.0.1:2", KNOWN) is None
    found = read_contexts(path).get("default")
    assert (found.nodes, found.token) == (("127.0.0.1:2",), "weft_k1_00")


def test_contexts_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    theirs = Context(("far:7400",), insecure=True)
    write_contexts(path, Contexts("default", {"default": theirs}))
    told = remember(path, "a", "127.0.0.1:1", FILES)
    assert told is not None and "context a" in told and "weft context use a" in told
    after = read_contexts(path)
    assert (after.current, after.get("default")) == ("default", theirs)
    assert after.get("a").nodes == ("127.0.0.1:1",)


def test_without_a_key_there_is_nothing_to_remember(tmp_path: Path) -> None:
    path = tmp_path / "contexts.toml"
    assert remember(path, "a", "127.0.0.1:1", KNOWN) is None
    assert not path.exists()


def test_a_default_whose_certificates_are_gone_is_taken_over(tmp_path: Path) -> None:
    """Who removes a data directory and starts again would connect with nothing but errors."""
    path = tmp_path / "contexts.toml"
    gone = Context(("127.0.0.1:9",), False, "weft_k0_00", str(tmp_path / "gone.pem"))
    write_contexts(path, Contexts("default", {"default": gone}))
    told = remember(path, "a", "127.0.0.1:1", FILES)
    assert told is not None and "context default" in told and "gone.pem" in told
    after = read_contexts(path)
    assert (after.current, after.get("default").nodes) == ("default", ("127.0.0.1:1",))


def test_a_default_that_still_works_stays_and_a_current_one_that_does_not_is_left(tmp_path: Path) -> None:
    path, root = tmp_path / "contexts.toml", tmp_path / "root.pem"
    root.touch()
    works = Context(("127.0.0.1:9",), False, "weft_k0_00", str(root))
    gone = Context(("127.0.0.1:8",), False, "weft_k0_00", str(tmp_path / "gone.pem"))
    write_contexts(path, Contexts("old", {"default": works, "old": gone}))
    remember(path, "a", "127.0.0.1:1", FILES)
    after = read_contexts(path)
    assert (after.current, after.get("default")) == ("a", works)
