"""gRPC's headers: what we write a foreign reader takes, what comes is read or refused with one error.

Clauses are those of "gRPC over HTTP2", the protocol's own document.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from math import inf, nan
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.wire import rpc
from weft.wire.http2 import ErrorCode
from weft.wire.http2.headers import LOOKED_AT, check_request, check_response, check_trailers
from weft.wire.http2.settings import HEADER_LIST_BYTES_MAX
from weft.wire.rpc import BadCall, RpcError, StatusCode

REQUEST_FIELDS = [
    (":method", "POST"),
    (":scheme", "https"),
    (":path", "/s/m"),
    (":authority", "host:1"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
    ("user-agent", "weft"),
]


# --- requests ---------------------------------------------------------------------------------------------------------


def test_a_request() -> None:
    """Request-Headers: the order of the document, metadata last."""
    fields = rpc.request_headers("/s/m", "host:1", "https", "weft", 1.5, [("key", "value"), ("k-bin", b"\0\xff")])
    assert fields == [*REQUEST_FIELDS, ("grpc-timeout", "1500000u"), ("key", "value"), ("k-bin", "AP8")]
    check_request(fields)
    assert rpc.request_headers("/s/m", "host:1", "https", "weft", None, ()) == REQUEST_FIELDS


@pytest.mark.parametrize(
    ("content_type", "is_grpc"),
    [
        ("application/grpc", True),
        ("application/grpc+proto", True),
        ("application/grpc;charset=utf-8", True),
        ("application/grpc-web", False),
        ("application/grpcx", False),
        ("application/json", False),
        ("", False),
    ],
)
def test_what_is_grpc(content_type: str, is_grpc: bool) -> None:
    """Content-Type; others get 415."""
    assert rpc.is_grpc({"content-type": content_type}) is is_grpc
    assert check_response(rpc.NOT_GRPC) == 415
    assert check_response(rpc.RESPONSE) == 200


# --- timeouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout_s", "text"),
    [
        (0.0, "1u"),  # a positive number, so no 0
        (-3.0, "1u"),
        (1e-9, "1u"),
        (0.1, "100000u"),
        (99.999999, "99999999u"),
        (100.0, "100000m"),
        (99_999.9995, "100000S"),
        (1e6, "1000000S"),
        (1e12, "99999999S"),
        (inf, "99999999S"),
        (nan, "99999999S"),
    ],
)
def test_timeouts_as_text(timeout_s: float, text: str) -> None:
    """TimeoutValue: at most eight digits."""
    assert rpc.timeout_text(timeout_s) == text


@given(st.floats(0, 1e8))
def test_a_timeout_is_never_shorter_on_the_other_side(timeout_s: float) -> None:
    read = rpc.read_timeout_untrusted(rpc.timeout_text(timeout_s))
    assert read >= min(timeout_s, 99_999_999) * (1 - 1e-12)
    assert read <= timeout_s * 1.001 + 1e-6 + 0.002


@pytest.mark.parametrize(
    ("text", "timeout_s"),
    [("1H", 3600), ("2M", 120), ("3S", 3), ("4m", 0.004), ("5u", 5e-6), ("6n", 6e-9), ("00000001S", 1), ("0S", 0)],
)
def test_timeouts_that_are_read(text: str, timeout_s: float) -> None:
    assert rpc.read_timeout_untrusted(text) == pytest.approx(timeout_s)


@pytest.mark.parametrize("text", ["", "1", "S", "1s", "-1S", "+1S", "1.5S", "123456789S", "1S ", "\u0661S", "1S\n"])
def test_timeouts_that_are_refused(text: str) -> None:
    with pytest.raises(BadCall):
        rpc.read_timeout_untrusted(text)


# --- metadata ---------------------------------------------------------------------------------------------------------

names = st.from_regex("[0-9a-z_.][0-9a-z_.-]{0,20}", fullmatch=True).filter(
    lambda name: name not in rpc.RESERVED | LOOKED_AT and not name.startswith("grpc-") and not name.endswith("-bin")
)
texts = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)).map(lambda text: text.strip(" "))
metadata = st.lists(st.tuples(names, texts) | st.tuples(names.map(lambda name: f"{name}-bin"), st.binary(max_size=60)))


@given(metadata)
def test_metadata_comes_as_it_was_sent(sent: list[tuple[str, str | bytes]]) -> None:
    written = rpc.written_metadata(sent)
    check_trailers(written)
    assert rpc.read_metadata_untrusted(written) == sent


def test_blanks_around_a_value_are_not_sent() -> None:
    """ASCII-Value: they may be stripped, and HTTP/2 takes none (RFC 9113, 8.2.1)."""
    assert rpc.written_metadata([("a", "  b c ")]) == [("a", "b c")]


@pytest.mark.parametrize("name", ["", "A", "a b", ":path", "a\n", "\xe9"])
def test_names_that_http_cannot_carry(name: str) -> None:
    with pytest.raises(AssertionError):
        rpc.written_metadata([(name, "x")])


@pytest.mark.parametrize("field", [("a", "x\ny"), ("a", "\xe9"), ("a-bin", "text"), ("a", b"bytes")])
def test_values_that_http_cannot_carry(field: tuple[str, str | bytes]) -> None:
    with pytest.raises(AssertionError):
        rpc.written_metadata([field])


def test_what_is_no_metadata() -> None:
    fields = [*REQUEST_FIELDS, ("grpc-timeout", "1S"), ("content-length", "3"), ("mine", "x")]
    assert rpc.read_metadata_untrusted(fields) == [("mine", "x")]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", [b""]),
        ("YQ", [b"a"]),
        ("YQ==", [b"a"]),
        ("YWJj", [b"abc"]),
        ("YQ,YWI=", [b"a", b"ab"]),
        ("YQ , YWI", [b"a", b"ab"]),
        (",", [b"", b""]),
    ],
)
def test_binary_metadata(value: str, read: list[bytes]) -> None:
    """Binary-Header: with padding or without, and two values in one are two."""
    assert rpc.read_metadata_untrusted([("k-bin", value)]) == [("k-bin", each) for each in read]


@pytest.mark.parametrize("value", ["Y", "YQ===", "=", "Y Q", "Y\tQ", "\xe9\xe9\xe9\xe9", "YQ;", "YQ,Y"])
def test_binary_metadata_that_is_refused(value: str) -> None:
    """Whatever the text, Latin-1 included, that is one error."""
    with pytest.raises(BadCall):
        rpc.read_metadata_untrusted([("k-bin", value)])


def test_the_last_value_of_a_name() -> None:
    sent: rpc.Metadata = [("a", "1"), ("b-bin", b"2"), ("a", "3")]
    assert rpc.metadata_value(sent, "a") == "3"
    assert rpc.metadata_value(sent, "b-bin") == b"2"
    assert rpc.metadata_value(sent, "c") is None


# --- statuses ---------------------------------------------------------------------------------------------------------


@given(st.sampled_from(list(StatusCode)), st.text(max_size=300), metadata)
def test_a_status_comes_as_it_was_sent(code: StatusCode, details: str, sent: list[tuple[str, str | bytes]]) -> None:
    fields = rpc.trailers(code, details, sent)
    check_trailers(fields)
    error = rpc.read_trailers_untrusted(fields)
    if code is StatusCode.OK:
        assert error is None
        return
    assert error is not None
    assert (error.status, error.details, error.metadata) == (code, details.encode(errors="replace").decode(), sent)


@pytest.mark.parametrize(
    ("details", "written"),
    [
        ("plain & simple!", "plain & simple!"),
        ("100%", "100%25"),
        ("gr\u00fc\u00df", "gr%C3%BC%C3%9F"),
        ("two\nlines", "two%0Alines"),
        (" around ", "%20around%20"),
        (" ", "%20"),
        ("\ud800", "?"),
    ],
)
def test_details_are_percent_encoded(details: str, written: str) -> None:
    """Percent-Encoded; and HTTP/2 takes no blanks around a value."""
    fields = dict(rpc.trailers(StatusCode.UNKNOWN, details, ()))
    assert fields["grpc-message"] == written
    assert unquote(written) == details.encode(errors="replace").decode()


@pytest.mark.parametrize("letter", ["x", "%", "\u20ac", "\U0001f600"])
def test_long_details_are_cut(letter: str) -> None:
    """Or the caller would get a broken connection instead of an error: peers bound headers."""
    fields = rpc.trailers(StatusCode.INTERNAL, letter * 100_000, ())
    assert sum(len(name) + len(value) + 32 for name, value in fields) < 8 << 10 < HEADER_LIST_BYTES_MAX
    error = rpc.read_trailers_untrusted(fields)
    assert error is not None and error.details.startswith(letter * 500)


def test_no_details() -> None:
    assert rpc.trailers(StatusCode.OK, "", ()) == [("grpc-status", "0")]


@pytest.mark.parametrize(
    ("text", "status"),
    [("0", None), ("00", None), ("5", StatusCode.NOT_FOUND), ("16", StatusCode.UNAUTHENTICATED),
     ("17", StatusCode.UNKNOWN), ("999", StatusCode.UNKNOWN)],
)  # fmt: skip
def test_statuses_that_are_read(text: str, status: StatusCode | None) -> None:
    error = rpc.read_trailers_untrusted([("grpc-status", text), ("grpc-message", "a%20b%zz")])
    assert (error and error.status) == status
    assert error is None or error.details == "a b%zz"


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1000", "one", "\u0661", " 1", "1\n", "\xb2"])
def test_statuses_that_are_refused(text: str) -> None:
    with pytest.raises(BadCall):
        rpc.read_trailers_untrusted([("grpc-status", text)])


def test_trailers_without_a_status() -> None:
    with pytest.raises(BadCall, match="without a status"):
        rpc.read_trailers_untrusted([("a", "b")])


def test_trailers_with_metadata_that_cannot_be_read() -> None:
    with pytest.raises(BadCall):
        rpc.read_trailers_untrusted([("grpc-status", "3"), ("a-bin", "\xff")])


# --- what other codes mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ErrorCode.NO_ERROR, StatusCode.INTERNAL),
        (ErrorCode.PROTOCOL_ERROR, StatusCode.INTERNAL),
        (ErrorCode.INTERNAL_ERROR, StatusCode.INTERNAL),
        (ErrorCode.FLOW_CONTROL_ERROR, StatusCode.INTERNAL),
        (ErrorCode.FRAME_SIZE_ERROR, StatusCode.INTERNAL),
        (ErrorCode.COMPRESSION_ERROR, StatusCode.INTERNAL),
        (ErrorCode.REFUSED_STREAM, StatusCode.UNAVAILABLE),
        (ErrorCode.CANCEL, StatusCode.CANCELLED),
        (ErrorCode.ENHANCE_YOUR_CALM, StatusCode.RESOURCE_EXHAUSTED),
        (ErrorCode.INADEQUATE_SECURITY, StatusCode.PERMISSION_DENIED),
        (99, StatusCode.INTERNAL),
    ],
)
def test_resets(code: int, status: StatusCode) -> None:
    """Errors: the table of HTTP/2 codes."""
    assert rpc.status_of_reset(code) is status


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (400, StatusCode.INTERNAL),
        (401, StatusCode.UNAUTHENTICATED),
        (403, StatusCode.PERMISSION_DENIED),
        (404, StatusCode.UNIMPLEMENTED),
        (429, StatusCode.UNAVAILABLE),
        (502, StatusCode.UNAVAILABLE),
        (503, StatusCode.UNAVAILABLE),
        (504, StatusCode.UNAVAILABLE),
        (500, StatusCode.UNKNOWN),
        (302, StatusCode.UNKNOWN),
    ],
)
def test_http_statuses(code: int, status: StatusCode) -> None:
    """HTTP to gRPC Status Code Mapping"""
    assert rpc.status_of_http(code) is status


def test_errors_say_something() -> None:
    assert str(RpcError(StatusCode.NOT_FOUND)) == "NOT_FOUND"
    assert str(RpcError(StatusCode.NOT_FOUND, "no such topic")) == "no such topic"


# --- anything ---------------------------------------------------------------------------------------------------------

anything = st.lists(st.tuples(st.text(max_size=12) | st.sampled_from(["grpc-status", "a-bin"]), st.text(max_size=20)))


@pytest.mark.parametrize("read", [rpc.read_metadata_untrusted, rpc.read_trailers_untrusted])
@given(fields=anything)
def test_any_fields_are_read_or_refused(
    read: Callable[[list[tuple[str, str]]], object], fields: list[tuple[str, str]]
) -> None:
    try:
        read(fields)
    except BadCall:
        return


@given(st.binary(max_size=40))
def test_binary_values_as_others_write_them(value: bytes) -> None:
    padded = b64encode(value).decode()
    for text in (padded, padded.rstrip("=")):
        assert rpc.read_metadata_untrusted([("k-bin", text)]) == [("k-bin", value)]
