"""``weft packet`` as a person meets it: what is printed where, and with which exit status."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from weft.cli.main import main
from weft.wire.emm import build, draft_event, parse_untrusted

VECTORS = Path(__file__).parents[1] / "vectors"
EMM = {v["name"]: v["hex"] for v in json.loads((VECTORS / "emm" / "emm.json").read_text())["vectors"]}
EXMP_HELLO = "000000080000000001000000"
EXMP_REQUEST = "0000001a050000000000000000000001" + b'{"op":"$echo"}'.hex()
# A notification: byte 0 is version 1, type 0; priority info, format plain text, "hi"; the signature is zeros
EMC = "20 0001 0002 0003 26 fe20" + "00" * 32 + "13 21 6869"


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Weft = Callable[..., Outcome]


@pytest.fixture
def weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Weft:
    """Run the command in this process, with ``stdin`` as its standard input."""

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)

    return run


def test_a_packet_is_a_tree_with_every_byte(weft: Weft) -> None:
    shown = weft("packet", "decode", EMM["event-hmac"])
    assert shown.status == 0
    assert "EMM packet, 99 bytes" in shown.out
    assert "string (0x01)  plant.temp" in shown.out
    assert "message id  3735928559 (0xdeadbeef)  de ad be ef" in shown.out
    assert "hmac (0x10)" in shown.out


@pytest.mark.parametrize(
    "data", [*EMM.values(), EXMP_HELLO, EXMP_HELLO + EXMP_REQUEST, EMC], ids=[*EMM, "exmp", "exmp pair", "emm-c"]
)
def test_decode_and_encode_are_inverse(weft: Weft, data: str) -> None:
    decoded = weft("packet", "decode", "--json", data)
    assert decoded.status == 0
    assert weft("packet", "encode", "--json", "-", stdin=decoded.out.encode()).out == data.replace(" ", "") + "\n"


def test_json_accounts_for_every_byte(weft: Weft) -> None:
    def leaves(part: dict[str, Any]) -> str:
        return "".join(map(leaves, part["parts"])) if "parts" in part else part["hex"]

    for data in (EMM["aes-gcm"], EXMP_REQUEST, EMC):
        (document,) = weft("packet", "decode", "--json", data).documents()
        assert leaves(document["parts"]) == data.replace(" ", "")


def test_a_bad_packet_says_where_and_why(weft: Weft) -> None:
    cut = EMM["hello"][:-2]
    shown = weft("packet", "decode", cut)
    assert (shown.status, shown.out) == (1, "")
    assert "payload length does not match the header (need 23, have 22) (length-mismatch)" in shown.err
    overrun = weft("packet", "decode", "0100000001000300000000000003e800020110")
    assert "(at 17, need 16, have 0)" in overrun.err
    assert overrun.err.rstrip().endswith("^^ byte 17")
    (document,) = weft("packet", "decode", "--json", cut).documents()
    assert document["error"]["reason"] == "length-mismatch"
    assert document["hex"] == cut


@pytest.mark.parametrize("data", ["ff", "0000000500000000", "20"], ids=["no protocol", "exmp cut", "emm-c cut"])
def test_other_bad_packets(weft: Weft, data: str) -> None:
    shown = weft("packet", "decode", data)
    assert shown.status == 1
    assert "malformed" in shown.err


def test_the_protocol_can_be_named(weft: Weft) -> None:
    assert "not EMM version 1" in weft("packet", "decode", "--protocol", "emm", EMC).err


def test_input_from_files_and_pipes(weft: Weft, tmp_path: Path) -> None:
    raw, text = tmp_path / "packet.bin", tmp_path / "packet.txt"
    raw.write_bytes(bytes.fromhex(EMM["json"]))
    text.write_text(EMM["json"] + "\n")
    expected = weft("packet", "decode", EMM["json"]).out
    assert weft("packet", "decode", str(raw)).out == expected
    assert weft("packet", "decode", str(text)).out == expected
    assert weft("packet", "decode", "-", stdin=raw.read_bytes()).out == expected
    assert weft("packet", "decode", "-", stdin=text.read_bytes()).out == expected


def pcap(*payloads: bytes) -> bytes:
    """A capture of raw IP: global header, then per packet a record header, IPv4, UDP and the payload."""
    data = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 65000000")
    for payload in payloads:
        udp = (7401).to_bytes(2, "big") * 2 + (8 + len(payload)).to_bytes(2, "big") + b"\0\0" + payload
        ip = (
            bytes.fromhex("4500")
            + (20 + len(udp)).to_bytes(2, "big")
            + bytes.fromhex("00000000 4011 0000 7f000001 7f000002")
        )
        size = (len(ip) + len(udp)).to_bytes(4, "little")
        data += bytes.fromhex("00f15365 00000000") + size + size + ip + udp
    return data


def test_a_capture_gives_a_tree_per_packet(weft: Weft, tmp_path: Path) -> None:
    capture = tmp_path / "traffic.pcap"
    capture.write_bytes(pcap(bytes.fromhex(EMM["json"]), b"\xff", bytes.fromhex(EMC)))
    shown = weft("packet", "decode", str(capture))
    assert shown.status == 1, "one of the packets is malformed"
    assert shown.out.count("127.0.0.1:7401 to 127.0.0.2:7401") == 2
    assert "malformed (127.0.0.1:7401 to 127.0.0.2:7401, 1 bytes)" in shown.err
    lines = weft("packet", "decode", "--json", str(capture)).documents()
    assert [line["capture"]["timestamp_us"] for line in lines] == [1_700_000_000_000_000] * 3
    good = "\n".join(json.dumps(line) for line in lines if "packet" in line)
    assert weft("packet", "encode", "--json", "-", stdin=good.encode()).out.split() == [
        EMM["json"],
        EMC.replace(" ", ""),
    ]


def test_a_damaged_capture_says_so(weft: Weft, tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(pcap(bytes.fromhex(EMM["json"]))[:-3])
    shown = weft("packet", "decode", str(capture))
    assert shown.status == 1
    assert shown.err.startswith("weft: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decode", "zork"), "'zork' is neither a file nor hex digits"),
        (("decode", "-"), "standard input is empty"),
        (("encode", "--json", "/nowhere/at/all"), "cannot read /nowhere/at/all: No such file or directory"),
        (("encode", "--json", "-"), "holds no JSON"),
    ],
)
def test_mistakes_get_one_clear_line(weft: Weft, arguments: tuple[str, ...], message: str) -> None:
    shown = weft("packet", *arguments)
    assert shown.status == 1
    assert message in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("5", "document 1: not a JSON object"),
        ("{}", "document 1: the document's 'protocol' is not one of ours"),
        ('{"protocol": "emm"}', "document 1: document needs 'flags' as list"),
        ('{"protocol": "exmp"}', "document 1: "),
        ('{"protocol": "emm-c"}', "document 1: "),
    ],
)
def test_bad_documents(weft: Weft, document: str, message: str) -> None:
    shown = weft("packet", "encode", "--json", "-", stdin=document.encode())
    assert shown.status == 1
    assert message in shown.err


@pytest.mark.req("EMM-02")
def test_message_ids_come_from_secrets(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def randbits(bits: int) -> int:
        asked.append(bits)
        return 0xCAFEF00D

    monkeypatch.setattr("secrets.randbits", randbits)
    document = {"protocol": "emm", "flags": [], "event_type": "event", "fields": [{"type": "0x01", "value": "n"}]}
    shown = weft("packet", "encode", "--json", "-", stdin=json.dumps(document).encode())
    packet = parse_untrusted(bytes.fromhex(shown.out))
    assert (packet.message_id, asked) == (0xCAFEF00D, [32])


def test_raw_output(weft: Weft, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packet = build(draft_event(1, 2, "n"))
    source = tmp_path / "document.json"
    source.write_text(weft("packet", "decode", "--json", packet.hex()).out)
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written))
    weft("packet", "encode", "--raw", "--json", str(source))
    assert written.getvalue() == packet


def test_one_bad_line_among_many_is_named(weft: Weft) -> None:
    shown = weft("packet", "encode", "--json", "-", stdin=b"{}\n{oops\n")
    assert "line 2 is not JSON" in shown.err


def test_version(weft: Weft) -> None:
    assert weft("--version").out.startswith("weft 0.")
