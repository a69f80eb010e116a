"""Where a table is: how places are spelled, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.lake.address import Address, StoreKind, TableError, parse_address

AZURE = "abfss://lake@weft.dfs.core.windows.net"


@pytest.mark.req("LAK-01")
@pytest.mark.parametrize(
    ("given_text", "text", "kind"),
    [
        ("/lake/events", "/lake/events", StoreKind.DIRECTORY),
        ("file:///lake/events", "/lake/events", StoreKind.DIRECTORY),
        ("/lake/a:b", "/lake/a:b", StoreKind.DIRECTORY),
        ("s3://bucket/events/", "s3://bucket/events", StoreKind.S3),
        ("S3A://bucket/a/b", "s3://bucket/a/b", StoreKind.S3),
        ("gs://bucket/a", "gs://bucket/a", StoreKind.GCS),
        (f"{AZURE}/a/b", f"{AZURE}/a/b", StoreKind.AZURE),
    ],
)
def test_a_place_is_spelled_in_one_way(given_text: str, text: str, kind: StoreKind) -> None:
    assert parse_address(given_text) == Address(text, kind)
    assert parse_address(text) == Address(text, kind)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a table needs a path"),
        ("ftp://bucket/a", "ftp: is not supported"),
        ("s3:bucket/a", "s3: is not supported"),
        ("s3://bucket", "has names between its slashes"),
        ("s3://bucket/a//b", "has names between its slashes"),
        ("s3://bucket/../b", "has names between its slashes"),
        ("s3://bucket/a?x=1", "has names between its slashes"),
        ("s3:///a", "begins with s3:// and the name of a bucket"),
        ("abfss://container/a", "begins with abfss:// and container@account"),
        ("/" + "x" * 2000, "too long .characters 2001, limit 1024"),
    ],
)
def test_what_is_no_place_is_refused(text: str, words: str) -> None:
    with pytest.raises(TableError, match=words):
        parse_address(text)


def test_a_key_that_somebody_put_into_an_address_is_not_repeated() -> None:
    with pytest.raises(TableError) as refusal:
        parse_address("s3://AKIA:hunter2@bucket/a")
    assert "hunter2" not in str(refusal.value)


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_one_error(text: str) -> None:
    for given_text in (text, f"s3://bucket/{text}", f"s3://{text}"):
        try:
            found = parse_address(given_text)
        except TableError:
            continue
        assert parse_address(found.text) == found
