"""Header blocks in both directions, and which lists of fields are refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hpack import Decoder, Encoder
from hpack.hpack import encode_integer
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.http2.support import REQUEST, block
from weft.wire.http2 import BadHttp2, BadStream, ErrorCode
from weft.wire.http2.headers import (
    BLOCKS_KEPT_MAX,
    SECRETS,
    BlockReader,
    OpenBlock,
    _length,
    check_request,
    check_response,
    check_trailers,
    content_length,
    encode_block,
)
from weft.wire.http2.settings import CONTINUATIONS_MAX, HEADER_BLOCK_BYTES_MAX, HEADER_FIELDS_MAX, HEADER_LIST_BYTES_MAX

VECTORS = json.loads((Path(__file__).parent.parent.parent / "vectors" / "http2" / "hpack.json").read_text())["cases"]

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.", min_size=1, max_size=20) | st.sampled_from(sorted(SECRETS))
values = st.text(st.characters(max_codepoint=255), max_size=40) | st.text("a", min_size=100, max_size=700)
fields = st.lists(st.tuples(names, values) | st.sampled_from(REQUEST), max_size=10)


# --- what others wrote ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_reading_what_the_rfc_writes(case: Any) -> None:
    reader = BlockReader()
    # The examples take the size for granted; here somebody has to say it (RFC 7541, 6.3).
    first = b"" if case["table_bytes"] is None else bytes(_size_update(case["table_bytes"]))
    for each in case["blocks"]:
        read = reader.read_untrusted(first + bytes.fromhex(each["hex"]))
        assert [list(field) for field in read] == each["headers"]
        first = b""


def _size_update(size: int) -> bytearray:
    digits: bytearray = encode_integer(size, 5)
    digits[0] |= 0x20
    return digits


@given(st.lists(fields, max_size=12), st.booleans(), st.lists(st.sampled_from([0, 40, 100, 4096])))
def test_reading_what_hpack_writes(lists: list[Any], huffman: bool, sizes: list[int]) -> None:
    """With its table in use, resized at any time, and with blocks that repeat themselves."""
    encoder, reader = Encoder(), BlockReader()
    for number, each in enumerate([*lists, *lists]):
        if number < len(sizes):
            encoder.header_table_size = sizes[number]
        sent = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in each]
        assert list(reader.read_untrusted(encoder.encode(sent, huffman=huffman))) == each


@given(st.binary(max_size=80), st.binary(max_size=40))
def test_any_block_is_read_as_hpack_reads_it_or_refused(first: bytes, second: bytes) -> None:
    """Kept blocks are a shortcut: the same block means what the decoder says at that moment."""
    reader, oracle = BlockReader(), Decoder(HEADER_LIST_BYTES_MAX)
    for each in (first, second, first, first, second):
        try:
            read = reader.read_untrusted(each)
        except BadHttp2:
            return
        assert [(n.encode("latin-1"), v.encode("latin-1")) for n, v in read] == list(oracle.decode(each, raw=True))


# --- what we write ----------------------------------------------------------------------------------------------------


@given(st.lists(fields, max_size=5))
def test_hpack_reads_what_we_write(lists: list[list[tuple[str, str]]]) -> None:
    decoder = Decoder()
    for each in lists:
        read = decoder.decode(encode_block(each), raw=True)
        assert [(bytes(n).decode("latin-1"), bytes(v).decode("latin-1")) for n, v in read] == each
        assert [field.indexable for field in read] == [name not in SECRETS for name, _ in each]
        assert not decoder.header_table.dynamic_entries


@given(st.integers(0, 1 << 20))
def test_lengths_are_written_as_the_rfc_wants(value: int) -> None:
    assert _length(value) == encode_integer(value, 7)


# --- kept blocks ------------------------------------------------------------------------------------------------------


def test_a_block_that_could_not_fill_the_table_is_not_taken_for_one_that_can() -> None:
    """A table of no size stays empty, whatever is to be added; with a size, the same block fills it."""
    adds = bytes.fromhex("400161016f")  # a: o, to be remembered
    reader = BlockReader()
    reader.read_untrusted(b"\x20" + block((":method", "GET")))
    for _ in range(2):
        assert list(reader.read_untrusted(adds)) == [("a", "o")]
    reader.read_untrusted(bytes(_size_update(4096)))
    assert list(reader.read_untrusted(adds)) == [("a", "o")]
    assert list(reader.read_untrusted(b"\xbe")) == [("a", "o")], "number 62, the first of the table"


def test_few_blocks_are_kept_and_no_long_ones() -> None:
    reader = BlockReader()
    for number in range(1000):
        reader.read_untrusted(block(("a", str(number))))
        reader.read_untrusted(block(("a", str(number) * 2000)))
        reader.read_untrusted(b"\x82" * 40 + block(("a", str(number))))
    assert len(reader._kept) <= BLOCKS_KEPT_MAX
    assert all(len(each) < 100 and len(read) == 1 for each, read in reader._kept.items())


def test_secrets_stay_out_of_logs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        BlockReader().read_untrusted(encode_block([("authorization", "Bearer weft_key")]))
    assert caplog.text == ""


# --- blocks that are refused ------------------------------------------------------------------------------------------

BLOCKS = [
    # name, clause of RFC 7541, block, code
    ("number 0", "6.1", "80", ErrorCode.COMPRESSION_ERROR),
    ("number beyond the tables", "2.3.3", "be", ErrorCode.COMPRESSION_ERROR),
    ("name by a number beyond the tables", "2.3.3", "7f00 0161", ErrorCode.COMPRESSION_ERROR),
    ("size of the table beyond what we allow", "6.3", "3fe2 1f", ErrorCode.COMPRESSION_ERROR),
    ("size of the table after a field", "4.2", "82 20", ErrorCode.COMPRESSION_ERROR),
    ("three sizes of the table", "4.2", "20 3f01 20 82", ErrorCode.COMPRESSION_ERROR),
    ("number without an end", "5.1", "ffff ffff ffff ffff", ErrorCode.COMPRESSION_ERROR),
    ("number that is cut off", "5.1", "ff", ErrorCode.COMPRESSION_ERROR),
    ("size of the table that is cut off", "5.1", "3f", ErrorCode.COMPRESSION_ERROR),
    ("name that is cut off", "5.2", "0005 6162", ErrorCode.COMPRESSION_ERROR),
    ("value that is cut off", "5.2", "0001 6105 62", ErrorCode.COMPRESSION_ERROR),
    ("literal without a value", "6.2", "0001 61", ErrorCode.COMPRESSION_ERROR),
    ("literal of nothing", "6.2", "00", ErrorCode.COMPRESSION_ERROR),
    ("Huffman, padded by more than 7 bits", "5.2", "0001 61 82 1fff", ErrorCode.COMPRESSION_ERROR),
    ("Huffman, padded by zeros", "5.2", "0001 61 81 18", ErrorCode.COMPRESSION_ERROR),
    ("Huffman, with the symbol for its end", "5.2", "0001 61 85 1fff ffff ff", ErrorCode.COMPRESSION_ERROR),
]


@pytest.mark.parametrize(("clause", "data", "code"), [each[1:] for each in BLOCKS], ids=[each[0] for each in BLOCKS])
def test_blocks_that_are_refused(clause: str, data: str, code: ErrorCode) -> None:
    with pytest.raises(BadHttp2) as caught:
        BlockReader().read_untrusted(bytes.fromhex(data))
    assert caught.value.code is code, clause
    assert len(str(caught.value)) < 200, "what is wrong with it, and not all of it"


def test_huffman_as_it_should_be() -> None:
    assert list(BlockReader().read_untrusted(bytes.fromhex("0001 61 81 1f"))) == [("a", "a")]


def test_two_sizes_of_the_table_are_what_an_encoder_may_send() -> None:
    """The smallest since the last block, and the last (4.2)."""
    assert list(BlockReader().read_untrusted(bytes.fromhex("20 3fe11f 82"))) == [(":method", "GET")]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (block(("a", "b" * (HEADER_LIST_BYTES_MAX - 32))), "list of headers is too long"),
        (b"\x82" * (HEADER_FIELDS_MAX + 1), "too many headers"),
        (b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000 + b"\xbe" * 8, "list of headers is too long"),
    ],
    ids=["one long value", "one byte a field", "a long entry of the table again and again"],
)
def test_lists_that_are_too_long(data: bytes, what: str) -> None:
    with pytest.raises(BadHttp2, match=what) as caught:
        BlockReader().read_untrusted(data)
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_a_block_has_bounds_in_bytes_and_in_parts() -> None:
    by_bytes = OpenBlock(1, False, bytes(HEADER_BLOCK_BYTES_MAX))
    by_bytes.add(b"")
    with pytest.raises(BadHttp2, match="too long"):
        by_bytes.add(b"x")
    by_parts = OpenBlock(1, False, b"")
    for _ in range(CONTINUATIONS_MAX):
        by_parts.add(b"x")
    assert by_parts.whole() == b"x" * CONTINUATIONS_MAX
    with pytest.raises(BadHttp2, match="too many CONTINUATIONs"):
        by_parts.add(b"")


# --- lists of fields: RFC 9113, 8.2 and 8.3 ---------------------------------------------------------------------------

GOOD = dict(REQUEST)


def but(**changes: str | None) -> list[tuple[str, str]]:
    """The request with some pseudo-headers changed, or left out."""
    fields = GOOD | {f":{name}": value for name, value in changes.items()}
    return [(name, value) for name, value in fields.items() if value is not None]


MALFORMED = [
    ("name in upper case", "8.2.1", [*REQUEST, ("Content-Type", "x")]),
    ("name with a blank", "8.2.1", [*REQUEST, ("a b", "x")]),
    ("name with CR", "8.2.1", [*REQUEST, ("a\r", "x")]),
    ("name with LF", "8.2.1", [*REQUEST, ("a\nb", "x")]),
    ("name with NUL", "8.2.1", [*REQUEST, ("a\0", "x")]),
    ("name with DEL", "8.2.1", [*REQUEST, ("a\x7f", "x")]),
    ("name beyond ASCII", "8.2.1", [*REQUEST, ("a\xe9", "x")]),
    ("name with a colon inside", "8.2.1", [*REQUEST, ("a:b", "x")]),
    ("no name", "8.2.1", [*REQUEST, ("", "x")]),
    ("value with CR", "8.2.1", [*REQUEST, ("a", "x\ry")]),
    ("value with LF", "8.2.1", [*REQUEST, ("a", "x\ny")]),
    ("value that ends with LF", "8.2.1", [*REQUEST, ("a", "x\n")]),
    ("value with NUL", "8.2.1", [*REQUEST, ("a", "x\0y")]),
    ("value with a smuggled request", "8.2.1", [*REQUEST, ("a", "x\r\n\r\nGET / HTTP/1.1")]),
    ("value that begins with a blank", "8.2.1", [*REQUEST, ("a", " x")]),
    ("value that ends with a tab", "8.2.1", [*REQUEST, ("a", "x\t")]),
    ("path with LF", "8.2.1", but(path="/a\n/b")),
    ("connection", "8.2.2", [*REQUEST, ("connection", "close")]),
    ("keep-alive", "8.2.2", [*REQUEST, ("keep-alive", "timeout=5")]),
    ("proxy-connection", "8.2.2", [*REQUEST, ("proxy-connection", "close")]),
    ("transfer-encoding", "8.2.2", [*REQUEST, ("transfer-encoding", "chunked")]),
    ("upgrade", "8.2.2", [*REQUEST, ("upgrade", "h2c")]),
    ("te with more than trailers", "8.2.2", [*REQUEST, ("te", "trailers, deflate")]),
    ("pseudo-header after others", "8.3", [*but(path=None), (":path", "/")]),
    ("unknown pseudo-header", "8.3", [(":protocol", "websocket"), *REQUEST]),
    ("pseudo-header without a name", "8.3", [(":", "x"), *REQUEST]),
    ("pseudo-header of responses", "8.3", [(":status", "200"), *REQUEST]),
    ("method twice", "8.3", [(":method", "POST"), *REQUEST]),
    ("path twice", "8.3", [(":path", "/a"), *REQUEST]),
    ("scheme twice", "8.3", [(":scheme", "http"), *REQUEST]),
    ("authority twice", "8.3", [(":authority", "a"), *REQUEST]),
    ("no method", "8.3.1", but(method=None)),
    ("no scheme", "8.3.1", but(scheme=None)),
    ("no path", "8.3.1", but(path=None)),
    ("empty path", "8.3.1", but(path="")),
    ("nothing at all", "8.3.1", []),
    ("host that is not the authority", "8.3.1", [*REQUEST, ("host", "elsewhere")]),
    ("two hosts", "8.3.1", [*but(authority=None), ("host", "a"), ("host", "b")]),
]


@pytest.mark.parametrize(("clause", "fields"), [e[1:] for e in MALFORMED], ids=[e[0] for e in MALFORMED])
def test_malformed_requests(clause: str, fields: Any) -> None:
    with pytest.raises(BadStream) as caught:
        check_request(fields)
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR, clause


@pytest.mark.parametrize(
    "fields",
    [
        REQUEST,
        but(authority=None),
        [*REQUEST, ("host", "TEST")],
        [*REQUEST, ("a", ""), ("a", "x y"), ("b", "\xe9\x80"), ("!#$%&'*+-.^_`|~09az", "x")],
        [*REQUEST, ("cookie", "a=b"), ("cookie", "c=d")],
    ],
)
def test_requests_that_are_fine(fields: Any) -> None:
    check_request(fields)


@pytest.mark.parametrize(
    ("clause", "fields"),
    [
        ("8.3.2", []),
        ("8.3.2", [("content-type", "x")]),
        ("8.3.2", [(":status", "")]),
        ("8.3.2", [(":status", "20")]),
        ("8.3.2", [(":status", "2000")]),
        ("8.3.2", [(":status", "600")]),
        ("8.3.2", [(":status", "+20")]),
        ("8.3.2", [(":status", "\xb2\xb3\xb9")]),  # digits to Unicode, not to HTTP
        ("8.3.2", [(":status", "200"), (":status", "200")]),
        ("8.6", [(":status", "101")]),
        ("8.3", [("a", "b"), (":status", "200")]),
        ("8.3", [(":status", "200"), (":path", "/")]),
        ("8.2.2", [(":status", "200"), ("connection", "close")]),
    ],
)
def test_malformed_responses(clause: str, fields: Any) -> None:
    with pytest.raises(BadStream) as caught:
        check_response(fields)
    assert caught.value.code is ErrorCode.PROTOCOL_ERROR, clause


def test_responses_that_are_fine() -> None:
    assert check_response([(":status", "200"), ("a", "b")]) == 200
    assert check_response([(":status", "599")]) == 599
    assert check_response([(":status", "100")]) == 100


@pytest.mark.parametrize("fields", [[(":status", "200")], [(":path", "/")], [("Grpc-Status", "0")], [("upgrade", "x")]])
def test_malformed_trailers(fields: Any) -> None:
    with pytest.raises(BadStream):
        check_trailers(fields)


def test_content_length() -> None:
    assert content_length(REQUEST) is None
    assert content_length([("content-length", "0")]) == 0
    assert content_length([("content-length", "17"), ("content-length", "17")]) == 17
    for values in (["1", "2"], [""], ["-1"], ["+1"], ["1.0"], ["0x1"], ["1, 1"], ["9" * 19], ["\xb2"]):
        with pytest.raises(BadStream):
            content_length([("content-length", value) for value in values])
