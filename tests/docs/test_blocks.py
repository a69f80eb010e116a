"""Every command and every piece of code in the documents is run as it stands, or says why it is not.

``blocks.py`` has the marks, ``shell.py`` how commands are run. Pages share two nodes: ``a``, secured, with a context,
for commands and for ``weft.connect()``; and an insecure one for ``main(nodes)``. A page whose commands start nodes has
a home of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, Block, blocks_in, blocks_of
from tests.docs.running import (
    CHECKS,
    LANGUAGES,
    PICTURES,
    SHELLS,
    check_settings,
    check_usage,
    looks_like_commands,
    run_python,
)
from tests.docs.shell import Shell, Step, compare, steps_of
from tests.up import RunningNode, up
from weft.configuration import BadConfig

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
ALL = [block for name in NAMES for block in blocks_of(name)]
EXAMPLES = [block for block in ALL if block.mark not in ("not run", "run by")]


# --- what stands in the documents --------------------------------------------------------------------------------


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.place)
def test_a_block_is_run_or_says_why_not(block: Block) -> None:
    assert block.language in LANGUAGES or block.mark in ("not run", "run by"), (
        f"{block.place}: a block is one of {', '.join(LANGUAGES)}, or has <!-- not run: REASON --> above it"
    )
    if block.mark == "not run":
        assert len(block.said.split()) >= 3, f"{block.place}: that is no reason: {block.said}"
    elif block.mark == "run by":
        test = ROOT / block.said
        assert test.is_file() and "blocks_for" in test.read_text() and block.page in test.read_text(), (
            f"{block.place}: {block.said} does not run it"
        )
    elif block.language in PICTURES:
        assert not looks_like_commands(block), f"{block.place}: commands are sh or console, so that they are run"


def test_no_mark_stands_where_it_marks_nothing() -> None:
    for name in NAMES:
        lines = (ROOT / name).read_text().splitlines()
        marks = [line for line in lines if line.strip().startswith(("<!-- not run", "<!-- run by", "<!-- settings"))]
        assert len(marks) == sum(block.mark is not None for block in blocks_of(name)), name


# --- running it --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def insecure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with up(tmp_path_factory.mktemp("insecure") / "data", "--insecure", "--node-id", "a") as node:
        yield node


@pytest.fixture(scope="module")
def with_a_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell in a home where ``weft up --data A --node-id a`` has been typed."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    try:
        shell.run(Step("weft up --data A --node-id a &\n", ("ready",)))
        yield shell
    finally:
        shell.close()


class Page:
    """Runs the blocks of one page, in their order."""

    def __init__(self, name: str, request: pytest.FixtureRequest, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
        self.blocks = [block for block in EXAMPLES if block.page == name]
        self._request, self._tmp_path, self._patch = request, tmp_path, patch
        self._shell: Shell | None = None

    @property
    def starts_nodes(self) -> bool:
        return any(re.search(r"\bweft up ", block.code) for block in self.blocks if block.language in SHELLS)

    def run(self) -> None:
        with ExitStack() as stack:
            for block in self.blocks:
                if block.language in CHECKS:
                    CHECKS[block.language](block)
                if block.language == "toml":
                    check_settings(block, [each for each in self.blocks if each.line < block.line])
                if block.file is not None:
                    self._in_shell(stack).write(block.file, block.code)
                elif block.language == "python":
                    self._run_python(stack, block)
                elif block.language in SHELLS:
                    for step in steps_of(block.language, block.code):
                        self._in_shell(stack).run(step)

    def _in_shell(self, stack: ExitStack) -> Shell:
        if self._shell is None and self.starts_nodes:
            self._shell = Shell(self._tmp_path)
            stack.callback(self._shell.close)
        elif self._shell is None:
            self._shell = self._request.getfixturevalue("with_a_node")
        return self._shell

    def _run_python(self, stack: ExitStack, block: Block) -> None:
        if "connect()" in block.code:
            self._patch.setenv("WEFT_CONFIG_DIR", str(self._in_shell(stack).config))
        run_python(block, {"nodes": lambda: [self._request.getfixturevalue("insecure").grpc]})


@pytest.mark.parametrize("name", [name for name in NAMES if any(block.page == name for block in EXAMPLES)])
def test_page(name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Page(name, request, tmp_path, monkeypatch).run()


# --- and what would be found -------------------------------------------------------------------------------------

PAGE_TEXT = """
Text.

<!-- not run: a reason of words -->
```sh
weft up
```

- in a list:

  ```console
  $ echo one \\
      two
  one two
  $ true
  ```

```toml
# archive.toml, or the same as YAML
[source]
```
"""


def test_blocks_are_found_with_their_marks_and_files() -> None:
    first, second, third = blocks_in("p.md", PAGE_TEXT)
    assert (first.line, first.language, first.mark, first.said) == (5, "sh", "not run", "a reason of words")
    assert steps_of(second.language, second.code) == [Step("echo one \\\n    two\n", ("one two",)), Step("true\n")]
    assert (third.mark, third.file) == (None, "archive.toml")


@pytest.mark.parametrize(
    ("shown", "printed", "lacking"),
    [
        ("t@a/0:e1794745694903:0+1 synced", "t@a/7:e1795010157061:41+1 synced", False),
        ("at 2026-11-18T06:28:20.531838Z", "at 2027-01-01T00:00:00Z", False),
        ("key=1  ...  21.5", "key=1  a=b  c=d  21.5", False),
        ("1.4 MiB", "1.5 KiB", False),
        ("20", "30", True),
        ("t@a/0:e1794745694903:0+1 synced", "t@b/0:e1795010157061:0+1 synced", True),
    ],
)
def test_a_line_may_differ_in_what_varies_only(shown: str, printed: str, lacking: bool) -> None:
    assert (compare((shown,), f"before\n{printed}\nafter")[0] is not None) == lacking


def test_lines_have_to_come_in_their_order() -> None:
    assert compare(("one", "two"), "one\nmore\ntwo")[0] is None
    assert compare(("two", "one"), "one\ntwo")[0] == "one"


def test_ids_that_the_page_shows_stand_for_those_of_the_run(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    try:
        shell.run(Step("echo key k0123456789abcdef\n", ("key kaaaaaaaaaaaaaaaa",)))
        shell.run(Step("echo kaaaaaaaaaaaaaaaa >id; test $(cat id) = k0123456789abcdef\n"))
        shell.run(Step("mkdir -p /tmp/x; ls /tmp\n", ("x",)))
        assert (tmp_path / "tmp" / "x").is_dir()
        for text, shown in (("false\n", ()), ("echo 1\n", ("2",)), ("true\n", ("error: no",))):
            with pytest.raises(AssertionError):
                shell.run(Step(text, shown))
    finally:
        shell.close()


def test_every_command_of_a_pipe_is_asked_to_end(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    node = "(trap 'echo asked > ended; exit' TERM; echo ready; while true; do sleep 0.1; done)"
    try:
        shell.run(Step(f"true | {node} &\n", ("ready",)))
    finally:
        shell.close()
    assert (tmp_path / "ended").read_text() == "asked\n"


@pytest.mark.parametrize(
    ("language", "code", "error"),
    [
        ("toml", "[gateway.emm]\nudq = 1\n", BadConfig),
        ("toml", "# archive.toml\n[source]\nsubscribe = 1\n", BadConfig),
        ("usage", "weft pub TOPIC [--no-such-thing]\n", AssertionError),
        ("usage", "weft pup TOPIC\n", AssertionError),
    ],
)
def test_settings_and_options_that_are_not_there_are_found(language: str, code: str, error: type[Exception]) -> None:
    block = Block("p.md", 1, language, code)
    with pytest.raises(error):
        check_settings(block) if language == "toml" else check_usage(block)
