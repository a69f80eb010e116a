"""The fuzzer: inputs that repeat exactly, and planted faults of every kind that it must find, keep and replay."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import fuzz
from tools.fuzzing import supervisor
from tools.fuzzing.mutator import GROWTH_BYTES, inputs, mutations
from tools.fuzzing.targets import BadTargets, load_targets

SEEDS = [bytes(range(40)), b"a shorter one", b""]

# The faults hide behind a seed, so that a run is sure to meet them. Those that cost a worker occur only once in a run.
PLANTED = """\
import ctypes
from pathlib import Path

def is_first(name):
    mark = Path(__file__).with_name(name + ".seen")
    is_new = not mark.exists()
    mark.touch()
    return is_new

def sound(data):
    pass

def crash(data):
    if data == b"crash":
        raise KeyError("planted")

def hang(data):
    if data == b"hang" and is_first("hang"):
        while True:
            pass

def greedy(data):
    if data == b"greedy":
        bytes(1 << 30)

def deadly(data):
    if data == b"deadly" and is_first("deadly"):
        ctypes.string_at(0)

def leave(data):
    if data == b"leave":
        raise SystemExit(0)

def stuck(data):
    while data == b"stuck":
        pass

TARGETS = {function.__name__: function for function in (sound, crash, hang, greedy, deadly, leave, stuck)}
SEEDS = {name: [b"good" + bytes(6), name.encode(), b"another"] for name in TARGETS}
"""


def first(count: int, seed: str) -> list[bytes]:
    return list(islice(mutations(SEEDS, seed), count))


def test_a_seed_stands_for_one_sequence_of_inputs() -> None:
    assert first(1000, "a") == first(1000, "a")
    assert first(1000, "a") != first(1000, "b")


@given(seeds=st.lists(st.binary(max_size=50), max_size=4), seed=st.text(max_size=3))
def test_mutations_never_run_dry_and_stay_within_bounds(seeds: list[bytes], seed: str) -> None:
    bytes_max = max(map(len, seeds), default=0) + GROWTH_BYTES
    made = list(islice(mutations(seeds, seed), 50))
    assert len(made) == 50
    assert all(len(data) <= bytes_max for data in made)


def test_mutations_show_every_kind_of_damage() -> None:
    seed = SEEDS[0]
    made = set(first(20_000, "a"))
    one_byte_off = {data for data in made if len(data) == len(seed) and sum(map(int.__ne__, data, seed)) == 1}
    kinds = {
        "flipped bit": any((data[at] ^ seed[at]).bit_count() == 1 for data in one_byte_off for at in range(40)),
        "any byte": {at for data in one_byte_off for at in range(40) if data[at] != seed[at]} == {*range(40)},
        "truncated": seed[:17] in made,
        "deleted": any(seed[:at] + seed[at + size :] in made for at in range(30) for size in range(1, 10)),
        "inserted": any(len(data) == 41 and data[:20] == seed[:20] and data[21:] == seed[20:] for data in made),
        "largest integer": any(b"\xff\xff\xff\xff" in data for data in made),
        "spliced": any(data.startswith(seed[:5]) and data.endswith(b"one") for data in made),
        "longer": any(len(data) > 60 for data in made),
        "empty": b"" in made,
    }
    assert [kind for kind, is_seen in kinds.items() if not is_seen] == []


def test_a_run_begins_with_the_seeds_and_has_the_length_asked_for() -> None:
    assert list(inputs(SEEDS, "a", 2)) == SEEDS[:2]
    run = list(inputs(SEEDS, "a", 50))
    assert (run[:3], run[3:]) == (SEEDS, first(47, "a"))


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    (tmp_path / "targets_planted.py").write_text(PLANTED)
    return tmp_path


def run(planted: Path, *options: str) -> int:
    return fuzz.main(["--dir", str(planted), "--out", str(planted / "out"), "--workers", "1", *options])


def test_a_sound_target_has_no_findings(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(planted, "--target", "sound", "--runs", "3000") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| target | executions | duration | executions/s | findings |"
    assert table[2].startswith("| `sound` | 3,000 | ")
    assert table[2].endswith(" | 0 |")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("crash", "KeyError at targets_planted.py:15"),
        ("hang", "took over 0.2 s (input "),
        ("greedy", "more than 512 MiB of memory at targets_planted.py:24"),
        ("deadly", "killed the process with SIGSEGV (input "),
        ("leave", "SystemExit at targets_planted.py:32"),
    ],
)
def test_a_planted_fault_is_found_and_the_run_goes_on(
    name: str, what: str, planted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "HANG_CPU_S", 0.2)

    assert run(planted, "--target", name, "--runs", "3000", "--json") == 1

    output = capsys.readouterr()
    (result,) = json.loads(output.out)
    (finding,) = result["findings"]
    assert result["executions"] == 3000, "a finding does not end the run"
    assert finding["what"].startswith(what)
    (kept,) = (planted / "out" / name).glob("*.bin")
    assert kept.read_bytes() == bytes.fromhex(finding["input"])
    assert f"--target {name} --replay {kept}" in output.err


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("crash", b"crash", "KeyError: 'planted'"),
        ("stuck", b"stuck", "TooSlow: still not done"),
        ("greedy", b"greedy", "MemoryError"),
        ("leave", b"leave", "SystemExit: 0"),
    ],
)
def test_a_finding_can_be_replayed(
    name: str,
    data: bytes,
    complaint: str,
    planted: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fuzz, "HANG_CPU_S", 0.2)
    path = planted / "input.bin"
    path.write_bytes(data)

    assert run(planted, "--target", name, "--replay", str(path)) == 1
    assert complaint in capsys.readouterr().err

    path.write_bytes(b"harmless")
    assert run(planted, "--target", name, "--replay", str(path)) == 0
    assert capsys.readouterr().out == f"{name} takes these 8 bytes well\n"


def test_a_target_that_keeps_hanging_is_given_up(
    planted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "HANG_CPU_S", 0.2)
    monkeypatch.setattr(supervisor, "RESTARTS_MAX", 2)
    assert run(planted, "--target", "stuck", "--runs", "3000") == 1
    assert "stuck: given up after 2 hangs and crashes" in capsys.readouterr().err


def test_time_can_be_the_limit(planted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(planted, "--target", "sound", "--runs", "1000000000", "--seconds", "0", "--json") == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["executions"] < 1_000_000_000


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("TARGETS = {'a/b': print}; SEEDS = {}", "'a/b'"),
        ("TARGETS = {'sound': print}; SEEDS = {}", "names that are taken: sound"),
        ("TARGETS = {}; SEEDS = {'gone': [b'']}", "seeds without a target: gone"),
        ("TARGETS = {'big': print}; SEEDS = {'big': [bytes(600_000)]}", "a seed of big is longer than"),
    ],
)
def test_a_targets_file_that_would_be_misread_is_refused(source: str, complaint: str, planted: Path) -> None:
    (planted / "targets_zzz.py").write_text(source)
    with pytest.raises(BadTargets, match=complaint):
        load_targets(planted)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--target", "nobody"], "no target nobody; there are sound, crash"),
        (["--replay", "x.bin"], "--replay needs one --target"),
    ],
)
def test_what_cannot_be_done_is_said(
    options: list[str], complaint: str, planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(planted, *options) == 2
    assert complaint in capsys.readouterr().err


def test_no_targets_is_not_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 2
    assert capsys.readouterr().err == "there are no targets\n"
