"""``make dist``: build a wheel and an sdist, try both in empty environments, and list what they bring along.

1. What is public is what docs/api.txt says; a tag of this commit is the version's.
2. ``dist/`` gets the wheel and the sdist.
3. Each is installed into an environment of its own; ``weft up`` runs there, an event is published and read. From the
   wheel the demo runs, too.
4. ``dist/`` gets the SBOM (CycloneDX) and the licences of what the wheel installs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path
from typing import Final

from weft import __version__

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
READY_S: Final = 60
PEEK: Final = """
from importlib import metadata
for each in sorted(metadata.distributions(), key=lambda each: each.name.lower()):
    found = each.metadata
    trove = [line.rpartition(" :: ")[2] for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    text = found.get("License-Expression") or ", ".join(trove) or (found.get("License") or "unknown").splitlines()[0]
    print(f"{each.name} {each.version}: {text}")
"""


def main() -> None:
    run(sys.executable, "-m", "tools.api", "--check")
    check_tag()
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory(prefix="weft-dist-") as place:
        plain = installed(Path(place) / "sdist", str(sdist))
        try_node(plain, Path(place) / "a")
        full = installed(Path(place) / "wheel", f"weft[spark] @ {wheel.as_uri()}")
        try_node(full, Path(place) / "b")
        run(str(full / "python"), "-m", "tools.demo")
        bare = installed(Path(place) / "bare", str(wheel))
        listed = subprocess.run([bare / "python", "-c", PEEK], check=True, capture_output=True, text=True).stdout
        (DIST / "licences.txt").write_text(listed)
        sbom = DIST / f"weft-{__version__}.cdx.json"
        run(sys.executable, "-m", "cyclonedx_py", "environment", "--output-file", str(sbom), str(bare / "python"))
    print("\n".join(["", *(f"dist/{each.name}: {each.stat().st_size:,} bytes" for each in sorted(DIST.iterdir()))]))


def check_tag() -> None:
    """A tagged commit is a release: the tag says which, and it must be the one that is built."""
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    tags = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    if tags and f"v{__version__}" not in tags:
        sys.exit(f"this commit is tagged {', '.join(tags)}, but src/weft/__init__.py says {__version__}")
    if metadata.version("weft") != __version__:
        sys.exit(f"installed here is weft {metadata.version('weft')}, the source is {__version__}: run make again")
    if not tags:
        print(f"not a release: no tag v{__version__} points here")


def installed(place: Path, what: str) -> Path:
    """An empty environment with nothing but this, and where its programs are."""
    venv.create(place, with_pip=True)
    run(str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", what)
    return place / "bin"


def try_node(programs: Path, data: Path) -> None:
    """As a user would: start a node, publish, read back, stop."""
    weft = str(programs / "weft")
    environ = {**os.environ, "WEFT_CONFIG_DIR": str(data / "config")}
    run(weft, "--version")
    command = [weft, "up", "--data", str(data / "data"), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None
            if node.stdout.readline() != "ready\n":
                sys.exit("the node did not get ready")
            for arguments in (
                ("pub", "dist.check", "hello"),
                ("sub", "dist.check", "--from", "earliest", "--count", "1"),
            ):
                subprocess.run([weft, *arguments], check=True, env=environ, timeout=READY_S)
        finally:
            node.terminate()
            status = node.wait(READY_S)
    if status:
        sys.exit(f"the node ended with status {status}")


def run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
