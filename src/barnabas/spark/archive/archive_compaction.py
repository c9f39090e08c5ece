"""Compaction of an archive: merges small files into large ones and checks that no record changed.

Files of one topic and day fall into tiers by size; a tier with many files is merged into one file
of a higher tier. So a record is rewritten a few times at most, however small the steps were, and a
day has a few dozen files at most.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas.cli.exit_codes import CommandFailed
from barnabas.spark.archive.archive_files import ArchiveDirectory
from barnabas.spark.archive.archive_manifest import ArchivedFile, Manifest
from barnabas.spark.archive.archive_run import RECORDS_IN_A_FILE, read_files, write_checked
from barnabas.spark.spark_errors import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES_OF_A_TIER: Final = 8


def decide_merges(manifest: Manifest) -> list[list[ArchivedFile]]:
    """The files to merge: each list becomes one file, and is of one topic and day."""
    tiers: dict[tuple[str, str, int], list[ArchivedFile]] = {}
    for file in manifest.files:
        if 0 < file.records < RECORDS_IN_A_FILE // 2:
            tier = int(math.log(file.records, FILES_OF_A_TIER))
            tiers.setdefault((file.topic, file.day, tier), []).append(file)
    return [files for _, files in sorted(tiers.items()) if len(files) >= FILES_OF_A_TIER]


def compact(spark: "SparkSession", folder: ArchiveDirectory) -> tuple[Manifest, int]:
    """Do every merge that is due; return the new manifest and the number of files merged.

    Raises  CommandFailed if a merge fails; the merges before it are committed
    """
    manifest, removed = folder.load(), 0
    while merges := decide_merges(manifest):
        manifest = _merge(spark, folder, manifest, merges[0])
        removed += len(merges[0])
    return manifest, removed


def _merge(
    spark: "SparkSession", folder: ArchiveDirectory, manifest: Manifest, old: Sequence[ArchivedFile]
) -> Manifest:
    sequence = manifest.sequence + 1
    with spark_failures("compacting"):
        rows = read_files(spark, folder, old)
        new = write_checked(spark, folder, rows, sequence, sum(file.records for file in old))
    if _content(new) != _content(old):
        raise CommandFailed(
            f"{folder}: the files of {old[0].topic} of {old[0].day} do not match the manifest and"
            " are left unchanged; compare them with the log by `barnabas pipeline audit --archive`"
        )
    kept = tuple(file for file in manifest.files if file not in old)
    merged = replace(manifest, sequence=sequence, files=(*kept, *new))
    folder.commit(merged)
    folder.remove_unlisted(merged)
    return merged


def _content(files: Sequence[ArchivedFile]) -> dict[int, tuple[int, int]]:
    """The record count and checksum of each partition."""
    found: dict[int, tuple[int, int]] = {}
    for part in (part for file in files for part in file.parts):
        records, checksum = found.get(part.partition, (0, 0))
        found[part.partition] = (records + part.records, checksum + part.checksum)
    return found
