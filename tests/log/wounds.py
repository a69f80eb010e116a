"""Ways to damage the files of a log. Each takes the log's directory and chance, and returns what it has done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random as Chance

Wound = Callable[[Path, Chance], str]


def both(*wounds: Wound) -> Wound:
    def wound(path: Path, chance: Chance) -> str:
        return ", ".join(each(path, chance) for each in wounds)

    return wound


# --- picking a file ----------------------------------------------------------------------------------------------


def wals(path: Path) -> list[Path]:
    """Write-ahead logs in order. RocksDB keeps an old one to use it again; that one comes first."""
    return sorted(each for each in (path / "db").glob("*.log") if each.stat().st_size)


def tables(path: Path) -> list[Path]:
    return sorted((path / "db").glob("*.sst"))


def batch_tables(path: Path) -> list[Path]:
    return [each for each in tables(path) if each.stat().st_size > 100_000]


def small_tables(path: Path) -> list[Path]:
    return [each for each in tables(path) if each.stat().st_size <= 100_000]


def manifest(path: Path) -> list[Path]:
    return sorted((path / "db").glob("MANIFEST-*"))


def named(name: str) -> Callable[[Path], list[Path]]:
    return lambda path: [path / name]


Pick = Callable[[Path], list[Path]]


# --- what to do to it --------------------------------------------------------------------------------------------


def flip(pick: Pick, *, flips: int = 1, last_bytes: int | None = None) -> Wound:
    """Flip bits at random places, or only among the last bytes."""

    def wound(path: Path, chance: Chance) -> str:
        done = []
        for _ in range(flips):
            file = chance.choice(pick(path))
            data = bytearray(file.read_bytes())
            first = 0 if last_bytes is None else max(0, len(data) - last_bytes)
            at, bit = chance.randrange(first, len(data)), chance.randrange(8)
            data[at] ^= 1 << bit
            file.write_bytes(data)
            done.append(f"flipped bit {bit} of byte {at} of {len(data)} in {file.name}")
        return ", ".join(done)

    return wound


def truncate(pick: Pick) -> Wound:
    def wound(path: Path, chance: Chance) -> str:
        file = chance.choice(pick(path))
        data = file.read_bytes()
        size = chance.randrange(len(data))
        file.write_bytes(data[:size])
        return f"truncated {file.name} from {len(data)} to {size}"

    return wound


def garble(pick: Pick, size: int = 4096) -> Wound:
    """Write random bytes over a random place."""

    def wound(path: Path, chance: Chance) -> str:
        file = chance.choice(pick(path))
        data = bytearray(file.read_bytes())
        at = chance.randrange(max(1, len(data) - size))
        end = min(at + size, len(data))
        data[at:end] = chance.randbytes(end - at)
        file.write_bytes(data)
        return f"garbled {file.name} from {at} to {end} of {len(data)}"

    return wound


def blank(pick: Pick, size: int = 4096) -> Wound:
    """Zeros, as of a page that never got to the disk."""

    def wound(path: Path, chance: Chance) -> str:
        file = chance.choice(pick(path))
        data = bytearray(file.read_bytes())
        at = chance.randrange(max(1, len(data) // size)) * size
        end = min(at + size, len(data))
        data[at:end] = bytes(end - at)
        file.write_bytes(data)
        return f"zeroed {file.name} from {at} to {end} of {len(data)}"

    return wound


def append_garbage(pick: Pick) -> Wound:
    def wound(path: Path, chance: Chance) -> str:
        file = chance.choice(pick(path))
        with file.open("ab") as end:
            end.write(chance.randbytes(chance.randrange(1, 5000)))
        return f"appended garbage to {file.name}"

    return wound


def replace(pick: Pick, content: bytes) -> Wound:
    def wound(path: Path, chance: Chance) -> str:
        for file in pick(path):
            file.write_bytes(content)
        return f"wrote {content!r}"

    return wound


def delete(pick: Pick, which: slice | None = None) -> Wound:
    """Delete one of the files, or those of a slice of them."""

    def wound(path: Path, chance: Chance) -> str:
        files = pick(path)
        gone = [chance.choice(files)] if which is None else files[which]
        for file in gone:
            file.unlink()
        return f"deleted {[file.name for file in gone]} of {[file.name for file in files]}"

    return wound


def delete_database(path: Path, chance: Chance) -> str:
    for file in (path / "db").iterdir():
        file.unlink()
    (path / "db").rmdir()
    return "deleted the database"
