"""Names of files: what a batch wrote is known by its name, and a partition by its directory."""

from __future__ import annotations

from datetime import date
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.lake.files import NULL_PARTITION, Attempt, batch_of, directory, partition_text

QUERY = "409c285b-36e7-4d11-9e8b-c2e7e4adea0b"


@given(batch=st.integers(0, 2**63 - 1), task=st.integers(0, 10**6), number=st.integers(0, 10**4))
def test_a_file_says_which_batch_it_was_written_for(batch: int, task: int, number: int) -> None:
    name = Attempt(QUERY, batch, task, "00ff").file_name(number)
    assert batch_of(f"date=2026-11-15/{name}") == (QUERY, batch)


@pytest.mark.parametrize("path", ["part-00000-1234.c000.zstd.parquet", "date=2026/x.parquet", "q.1.parquet", ""])
def test_names_of_others_say_nothing(path: str) -> None:
    assert batch_of(path) is None


@given(st.text(min_size=1))
def test_a_directory_names_any_value_and_stays_one_directory(value: str) -> None:
    name = directory({"token": value})
    assert name.count("/") == 1
    assert unquote(name.removeprefix("token=")[:-1], errors="surrogatepass") == value


def test_values_that_are_null_have_hives_name() -> None:
    assert directory({"date": None, "kind": ""}) == f"date={NULL_PARTITION}/kind={NULL_PARTITION}/"
    assert directory({}) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(None, None), (True, "true"), (date(2026, 11, 15), "2026-11-15"), (7, "7"), ("a b", "a b")]
)
def test_partitions_are_written_as_all_formats_read_them(value: object, text: str | None) -> None:
    assert partition_text(value) == text  # type: ignore[arg-type]
