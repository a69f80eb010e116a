"""How many parts Spark makes of what it shuffles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weft.limits import MIB
from weft.pipelines.shuffling import SHUFFLE_PARTITIONS, choose_partitions, cores_of, partitions_for


@pytest.mark.parametrize(
    ("cores", "data_bytes", "wanted"),
    [
        (2, None, 2),  # a stream: nobody knows how much will come
        (2, 0, 2),
        (2, 100 * MIB, 2),
        (2, 129 * MIB, 4),
        (16, 2048 * MIB, 32),
        (64, 1 << 50, 10_000),
    ],
)
def test_one_for_each_core_and_more_for_much_data(cores: int, data_bytes: int | None, wanted: int) -> None:
    assert partitions_for(cores, data_bytes) == wanted


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[2,4]", 2), ("local[0]", 1)])
def test_a_local_master_says_its_cores(master: str, cores: int) -> None:
    assert cores_of(_session(master)) == cores


def test_what_was_chosen_is_set_and_said() -> None:
    conf = {"spark.master": "local[2]"}
    spark: Any = SimpleNamespace(conf=SimpleNamespace(get=conf.get, set=conf.__setitem__))
    said = choose_partitions(spark, 200 * MIB)
    assert conf[SHUFFLE_PARTITIONS] == "4"
    assert said.startswith("4 shuffle partitions for 2 cores and 200 MiB of tables")
    assert choose_partitions(spark, None).startswith("2 shuffle partitions for 2 cores (")


def _session(master: str) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=lambda _name, _default: master))
