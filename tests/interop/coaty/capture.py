"""Records what the reference sends, as vectors. From the root: ``python -m tests.interop.coaty.capture libp2p``.

Our side uses fixed keys and fixed entropy and stores them in the vectors, so that a recorded connection can be replayed
to the last byte. The meaning of each recorded message is taken from the reference's own decoders (``reference.js``).

``coaty`` instead of ``libp2p`` records Coaty's events and liveliness frames for the codec in ``weft.wire.coaty``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.interop.coaty.capture_coaty import CoatyCapture
from tests.interop.coaty.capture_libp2p import Libp2pCapture
from tests.interop.coaty.js_agent import HERE, reference

VECTORS = HERE.parent.parent / "vectors"
AGENT = "@coaty/core 2.4.1 with @coaty/binding.libp2p 2.0.0 (libp2p 0.29.4), recorded on a loopback connection"
LIBRARIES = "the packages that @coaty/binding.libp2p 2.0.0 uses, by tests/interop/coaty/reference.js"


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def capture_coaty() -> None:
    capture = CoatyCapture(AGENT)
    capture.run()
    write(VECTORS / "coaty" / "js_capture.json", {"events": capture.events, "liveliness": capture.liveliness})


def capture_libp2p() -> None:
    capture = Libp2pCapture()
    capture.run()
    for name, cases in capture.cases.items():
        write(VECTORS / "libp2p" / f"{name}.json", {"origin": AGENT, "cases": cases})
    for name, cases in reference("vectors").items():
        write(VECTORS / "libp2p" / f"{name}.json", {"origin": LIBRARIES, "cases": cases})


if __name__ == "__main__":
    {"coaty": capture_coaty, "libp2p": capture_libp2p}[sys.argv[1]]()
