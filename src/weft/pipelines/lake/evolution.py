"""Tables that grow with their schema: columns are added and types widened; every other change is refused in advance.

New columns, and new fields of structs, cost nothing: existing rows have null there. In an Iceberg table, a wider type
is only an entry in the metadata. Readers of Delta and Parquet want one type in all files, so all files are rewritten.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.lake.address import TableError
from weft.lake.files import DataFile, WrittenFile
from weft.limits import LAKE_COMMIT_ATTEMPTS, MIB
from weft.pipelines.lake.compaction import Bin, rewrite
from weft.pipelines.lake.reading import columns_of
from weft.pipelines.lake.table import Table, TableChanged
from weft.schema.arrow_types import is_same_files, sql_name, wider

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNUSABLE: Final = re.compile(r"[ ,;{}()=.`\x00-\x1f]")  # not allowed in a column's name by Delta, Iceberg or Spark


def combined(there: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The table's columns, wide enough for both schemas, then the columns that it lacks. Raises TableError. Pure."""
    fields: dict[str, pa.DataType] = {each.name: each.type for each in there}
    known = {name.casefold(): name for name in fields}
    for each in wanted:
        name = known.setdefault(each.name.casefold(), each.name)
        kind = wider(fields.get(name, each.type), each.type)
        if name != each.name or kind is None:
            raise TableError(
                "a table's columns can only become wider, and this one cannot: give the new schema a table of its own",
                column=each.name,
                there=f"{name} {sql_name(fields[name])}",
                coming=f"{each.name} {sql_name(each.type)}",
            )
        if name not in fields and (found := _unusable(each)):
            raise TableError(
                "tables cannot have a column of this name: leave it out of the schema, and it is in _rescued",
                column=repr(found),
            )
        fields[name] = kind
    return pa.schema(list(fields.items()))


def _unusable(column: pa.Field) -> str | None:
    """The name of the column, or of a field in it, that no table can have; None if all are fine."""
    if UNUSABLE.search(column.name):
        return str(column.name)
    kind = column.type
    inner = [kind.field(at) for at in range(kind.num_fields)]
    return next((found for each in inner if (found := _unusable(each))), None)


def grown(narrow: pa.DataType, wide: pa.DataType) -> pa.DataType:
    """The narrow type with the fields of the wide one. Pure."""
    types = pa.types
    if types.is_struct(narrow):
        known = {each.name: each.type for each in narrow}
        return pa.struct(
            [(each.name, grown(known[each.name], each.type) if each.name in known else each.type) for each in wide]
        )
    if types.is_list(narrow):
        return pa.list_(pa.field("element", grown(narrow.value_type, wide.value_type)))
    if types.is_map(narrow):
        return pa.map_(narrow.key_type, grown(narrow.item_type, wide.item_type))
    return narrow


def evolve(spark: SparkSession, table: Table, wanted: pa.Schema, say: Callable[[str], None]) -> pa.Schema:
    """Make room in a table for these columns; return the columns that it then has. TableError, before anything is
    changed, if that is impossible; TableChanged if others keep changing the table."""
    for _ in range(LAKE_COMMIT_ATTEMPTS - 1):
        try:
            return _evolved(spark, table, wanted, say)
        except TableChanged:
            continue
    return _evolved(spark, table, wanted, say)


def _evolved(spark: SparkSession, table: Table, wanted: pa.Schema, say: Callable[[str], None]) -> pa.Schema:
    from pyspark.sql.pandas.types import from_arrow_schema

    there = columns_of(table.schema())
    target = combined(there, wanted)
    if target == there:
        return there
    if table.takes_wider_types:
        table.grow(from_arrow_schema(target))
        return columns_of(table.schema())
    kinds = {each.name: each.type for each in there}
    more = pa.schema(
        [(each.name, grown(kinds[each.name], each.type) if each.name in kinds else each.type) for each in target]
    )
    if more != there:
        table.grow(from_arrow_schema(more))
    if target != more:
        _widen(spark, table, target, say)
    return columns_of(table.schema())


def _widen(spark: SparkSession, table: Table, target: pa.Schema, say: Callable[[str], None]) -> None:
    """Rewrite all files with the wider types, and swap them in together with the table's new columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    there = columns_of(table.schema())
    names = [each.name for each in target if not is_same_files(there.field(each.name).type, each.type)]
    more = table.files()
    say(
        f"{', '.join(names)}: wider from now on; {len(more)} files with "
        f"{sum(file.size_bytes for file in more) / MIB:,.1f} MiB are written again for it"
    )
    files: list[DataFile] = []
    added: list[WrittenFile] = []
    for _ in range(LAKE_COMMIT_ATTEMPTS):
        files += more
        added += rewrite(spark, table, [Bin((file,)) for file in more], target)
        if table.widen(from_arrow_schema(target), files, added):
            break
        known = {file.path for file in files}
        more = [file for file in table.files() if file.path not in known]  # files that others added meanwhile
    else:
        raise TableChanged("others keep adding files to the table", table=table.settings.path)
    written = {file.path for file in added}
    if late := [file for file in table.files() if file.path not in written]:  # files that others added
        table.replace(late, rewrite(spark, table, [Bin((file,)) for file in late], target))
