"""``weft packet``: take apart and put together EMM, EMM-C and EXMP messages."""

from __future__ import annotations

import secrets
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from weft.cli.packet.input import Captured, read_input
from weft.cli.packet.output import part_document, print_fault, print_tree
from weft.errors import PeerError, UsageError
from weft.wire.datagram import DatagramProtocol, protocol_of_untrusted
from weft.wire.describe import Part
from weft.wire.emm import describe as emm
from weft.wire.emm_compact import describe as emm_compact
from weft.wire.emm_compact import document as emm_compact_document
from weft.wire.exmp import describe as exmp
from weft.wire.exmp import document as exmp_document

app = typer.Typer(help="Take apart and put together EMM, EMM-C and EXMP messages.", no_args_is_help=True)

EXMP_FIRST_BYTE = 0x00  # of a length prefix under 16 MiB


class Protocol(StrEnum):
    AUTO = "auto"
    EMM = "emm"
    EMM_COMPACT = "emm-c"
    EXMP = "exmp"


@app.command()
def decode(
    source: Annotated[
        str, typer.Argument(metavar="HEX|FILE|-", help="Hex digits, a file (raw, hex or pcap), or stdin.")
    ],
    protocol: Annotated[
        Protocol, typer.Option(help="Which protocol; by default the first byte tells.")
    ] = Protocol.AUTO,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per packet, for `weft packet encode`.")] = False,
) -> None:
    """Print every byte of a message and what it means. Exit status 1 if a message is malformed."""
    good = True
    for captured in read_input(source):
        good = _decode_one(captured, protocol, json) and good
    if not good:
        raise typer.Exit(1)


def _decode_one(captured: Captured, protocol: Protocol, json: bool) -> bool:
    """Print one message; whether it was well-formed."""
    data = captured.data
    try:
        chosen = _protocol_of(data) if protocol is Protocol.AUTO else protocol
        tree, document = _take_apart(chosen, data)
    except PeerError as error:
        print_fault(captured, error, json=json)
        return False
    if json:
        line: dict[str, Any] = {"packet": document, "parts": part_document(tree, data)}
        if captured.origin:
            line["capture"] = captured.origin
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    else:
        print_tree(tree, captured)
    return True


def _protocol_of(data: bytes) -> Protocol:
    if data[:1] == bytes((EXMP_FIRST_BYTE,)):
        return Protocol.EXMP
    match protocol_of_untrusted(data):
        case DatagramProtocol.EMM:
            return Protocol.EMM
        case DatagramProtocol.EMM_COMPACT:
            return Protocol.EMM_COMPACT


def _take_apart(protocol: Protocol, data: bytes) -> tuple[Part, dict[str, Any]]:
    match protocol:
        case Protocol.EMM:
            return emm.describe_untrusted(data), emm.to_document_untrusted(data)
        case Protocol.EMM_COMPACT:
            return emm_compact.describe_untrusted(data), emm_compact_document.to_document_untrusted(data)
        case Protocol.EXMP:
            return exmp.describe_untrusted(data), exmp_document.to_document_untrusted(data)
        case Protocol.AUTO:
            raise AssertionError("told by the first byte")


@app.command()
def encode(
    source: Annotated[
        str, typer.Option("--json", metavar="FILE|-", help="The output of `decode --json`, or a document of that form.")
    ],
    raw: Annotated[bool, typer.Option("--raw", help="Write the bytes themselves instead of hex.")] = False,
) -> None:
    """Put messages together from JSON, one per line. EMM documents may leave out message_id and timestamp_s."""
    for number, document in enumerate(_read_documents(source), start=1):
        try:
            data = _put_together(document)
        except UsageError as error:
            raise UsageError(f"document {number}: {error}") from error
        if raw:
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.write(data.hex() + "\n")


def _read_documents(source: str) -> list[Any]:
    """One document, a list of them, or one per line."""
    text = sys.stdin.read() if source == "-" else _read_text(source)
    try:
        whole = msgspec.json.decode(text)
        return whole if isinstance(whole, list) else [whole]
    except msgspec.DecodeError as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise UsageError(f"{'standard input' if source == '-' else source} holds no JSON: {error}") from None
    documents = []
    for number, line in enumerate(lines, start=1):
        try:
            documents.append(msgspec.json.decode(line))
        except msgspec.DecodeError as error:
            raise UsageError(f"line {number} is not JSON: {error}") from None
    return documents


def _read_text(source: str) -> str:
    try:
        return Path(source).read_text()
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {source}: it is not UTF-8") from None


def _put_together(line: Any) -> bytes:
    document = line.get("packet", line) if isinstance(line, dict) else line
    if not isinstance(document, dict):
        raise UsageError("not a JSON object")
    match document.get("protocol"):
        case Protocol.EMM:
            # EMM-02: identifiers come from a cryptographic source.
            fresh = {"message_id": secrets.randbits(32), "timestamp_s": int(time.time())}
            return emm.from_document(fresh | document)
        case Protocol.EMM_COMPACT:
            return emm_compact_document.from_document(document)
        case Protocol.EXMP:
            return exmp_document.from_document(document)
        case other:
            known = ", ".join(name for name in Protocol if name is not Protocol.AUTO)
            raise UsageError("the document's 'protocol' is not one of ours", protocol=other, known=known)
