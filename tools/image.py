"""``make image``: build the image of deploy/Dockerfile with buildah, which needs neither a service nor namespaces.

The Dockerfile's base comes from a registry of images. Where none can be reached, ``--base debian`` makes one from
Debian's packages, with debootstrap and as root. tests/deploy/test_built_image.py runs what this builds.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from weft import __version__

ROOT: Final = Path(__file__).parents[1]
PLACE: Final = ROOT / "build" / "image"  # images of our own, beside those of the machine
IMAGE: Final = f"localhost/weft:{__version__}"
BUILT: Final = PLACE / f"built-{__version__}"  # it is there once the image is
# Copies instead of overlays, and chroot instead of namespaces: this works in a container, too.
BUILDAH: Final = ("buildah", "--root", str(PLACE / "store"), "--runroot", str(PLACE / "run"), "--storage-driver", "vfs")
ISOLATION: Final = ("--isolation", "chroot", "--network", "host")

DEBIAN: Final = "localhost/weft-base:debian"
SUITE: Final = "bookworm"  # Debian 12, with Python 3.11
PACKAGES: Final = ("python3", "python3-venv", "python3-pip", "python-is-python3", "ca-certificates")
CERTIFICATES: Final = "/etc/ssl/certs"  # in the build, pip trusts what this machine trusts


def main() -> None:
    base = parsed().base
    if not shutil.which(BUILDAH[0]):
        sys.exit("no buildah here; with another engine: docker build -f deploy/Dockerfile -t weft .")
    if base == "debian":
        make_base()
        base = DEBIAN
    PLACE.mkdir(parents=True, exist_ok=True)
    mount = ("-v", f"{CERTIFICATES}:{CERTIFICATES}:ro") if Path(CERTIFICATES).is_dir() else ()
    chosen = ("--build-arg", f"PYTHON_IMAGE={base}") if base else ()
    dockerfile = str(ROOT / "deploy" / "Dockerfile")
    run(*BUILDAH, "build", *ISOLATION, "--format", "docker", *mount, *chosen, "-f", dockerfile, "-t", IMAGE, str(ROOT))
    BUILT.touch()
    print(f"built {IMAGE}; .venv/bin/pytest tests/deploy/test_built_image.py runs it")


def parsed() -> argparse.Namespace:
    reader = argparse.ArgumentParser(prog="make image", description="Build the container image with buildah.")
    reader.add_argument(
        "--base",
        metavar="IMAGE",
        help="the base, with Python 3.11 or later, or 'debian' to make one; what the Dockerfile names by default",
    )
    return reader.parse_args()


def make_base() -> None:
    """Debian with its Python, as an image of one layer."""
    if not shutil.which("debootstrap"):
        sys.exit("--base debian needs debootstrap")
    with tempfile.TemporaryDirectory(prefix="weft-base-") as place:
        run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, place)
        container = run(*BUILDAH, "from", "scratch")
        run(*BUILDAH, "copy", "--quiet", container, place, "/")
        run(*BUILDAH, "config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
        run(*BUILDAH, "commit", "--quiet", "--format", "docker", "--rm", container, DEBIAN)


def run(*command: str) -> str:
    """Show all that it prints, and return the last line of it. Exit with its status if it fails."""
    print("+", *command, flush=True)
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            last = line.strip()
    if process.returncode:
        sys.exit(process.returncode)
    return last


if __name__ == "__main__":
    main()
