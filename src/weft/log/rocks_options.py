"""How RocksDB is set up. Options and traps were measured: see docs/adr/0004-rocksdb-log.md and docs/benchmarks.md."""

from __future__ import annotations

from typing import Final

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, DBRecoveryMode, Options

from weft.limits import KIB, MIB

WRITE_BUFFER_BYTES: Final = 128 * MIB  # twice a segment: the log flushes, RocksDB never does so by itself
TABLES_BUFFER_BYTES: Final = 32 * MIB
TABLE_FILE_BYTES: Final = 64 * MIB  # a segment
WAL_BYTES_MAX: Final = 512 * MIB  # reached only if flushes are too slow
OPEN_FILES_MAX: Final = 512  # table files, for both column families together
OPEN_FILES_MIN: Final = 32  # RocksDB takes no fewer than 20
OTHER_FILES: Final = 32  # write-ahead logs, including recycled ones, manifests, its own log, marks, directories
ALL_FILES: Final = -1  # open every table file at once, and keep it open
BLOCK_CACHE_BYTES: Final = 64 * MIB


def database_options(
    *, skip_damage: bool = False, compaction: bool = True, open_files_max: int = OPEN_FILES_MAX
) -> tuple[Options, Options]:
    """Return the options for batches (and the database as a whole), and those for tables.

    ``skip_damage``: read a damaged write-ahead log also behind the damage. Without ``compaction``, RocksDB reads table
    files only when asked.
    """
    cache = Cache(BLOCK_CACHE_BYTES)
    batches = _base_options(skip_damage, compaction)
    batches.set_write_buffer_size(WRITE_BUFFER_BYTES)
    batches.set_max_write_buffer_number(4)
    batches.set_target_file_size_base(TABLE_FILE_BYTES)
    batches.set_block_based_table_factory(_blocks(cache, 64 * KIB))
    tables = _base_options(skip_damage, compaction)
    tables.set_write_buffer_size(TABLES_BUFFER_BYTES)
    tables.set_block_based_table_factory(_blocks(cache, 4 * KIB))
    for options in (batches, tables):
        options.set_max_open_files(open_files_max)
    return batches, tables


def _base_options(skip_damage: bool, compaction: bool) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    # Recovery ends at a damaged spot, and RocksDB does not say so: the log compares with its marks (recovery.py). When
    # we look for what is left of a damaged log, recovery goes on behind the spot.
    mode = DBRecoveryMode.skip_any_corrupted_record() if skip_damage else DBRecoveryMode.point_in_time()
    options.set_wal_recovery_mode(mode)
    options.set_disable_auto_compactions(not compaction)
    options.set_recycle_log_file_num(4)  # 15 to 20 % faster syncs: the file's size does not change
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_compression_type(DBCompressionType.none())  # Arrow data is compressed by its publisher, or not at all
    return options


def _blocks(cache: Cache, block_bytes: int) -> BlockBasedOptions:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(block_bytes)
    return blocks
