"""Two tables of one query: what is decided holds for that query, and for no other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from weft.lake.files import Attempt
from weft.lake.settings import TableSettings
from weft.pipelines.lake import open_table
from weft.pipelines.lake.deciding import Staged, encode_files
from weft.pipelines.lake.writing import FileWriter
from weft.pipelines.packet.tables import EVENTS_STORED, PARTITION_BY, TwoTables
from weft.security.files import write_private


@pytest.mark.req("SPK-03")
def test_a_decision_of_a_query_whose_checkpoint_was_removed_does_not_hold_for_the_next_one(tmp_path: Path) -> None:
    """Its rows are in the table; to keep to it would leave out those of the new query's batch."""
    events, quarantine = (TableSettings(str(tmp_path / name), partition_by=PARTITION_BY) for name in ("good", "bad"))
    tables = TwoTables(events, quarantine, tmp_path / "decisions", tmp_path / "query")
    tables.prepare()
    rows = pa.RecordBatch.from_arrays([pa.nulls(1, each.type) for each in EVENTS_STORED], schema=EVENTS_STORED)
    table = open_table(events)
    files = FileWriter(events, EVENTS_STORED, Attempt("before", 3, 0, "aa"), table.place).write_all([rows])
    write_private(tables.decisions / "3.json", encode_files(Staged(files, [])))
    assert tables._decided(3, "before") is not None
    table.commit(files, "before", 3)
    assert tables._decided(3, "before") is not None
    assert tables._decided(3, "now") is None
