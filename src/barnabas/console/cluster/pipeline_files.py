"""Projects and archives of `barnabas pipeline` below directories on this machine."""

import base64
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.base.ids import TopicPartition
from barnabas.cli.exit_codes import CommandFailed
from barnabas.console.cluster.console_client import LATEST, ConsoleClient
from barnabas.console.cluster.topic_index import TopicIndex, TopicRow
from barnabas.console.cluster.topics import leaders_of

_MANIFEST: Final = "_manifest.json"
_KEPT: Final = 100


class Archive(NamedTuple):
    """An archive by its manifest; `ends` are the offsets up to which it has each partition.

    An `error` says why it cannot be read; it has nothing else then.
    """

    path: str
    error: str = ""
    topics: Mapping[str, str] = {}
    """The topic ids by name."""
    files: int = 0
    records: int = 0
    bytes: int = 0
    ends: Mapping[TopicPartition, int] = {}


def find_projects(folders: tuple[Path, ...]) -> list[dict[str, Any]]:
    from barnabas.spark.project.project_files import find_all

    found: list[dict[str, Any]] = []
    for folder in folders:
        if not folder.is_dir():
            continue
        for each in find_all(folder):
            if isinstance(each, CommandFailed):
                found.append({"name": "invalid", "path": "", "error": str(each)})
            else:
                found.append({"name": each.name, "path": str(each.folder), "error": ""})
    return found


def find_archives(folders: tuple[Path, ...]) -> list[Archive]:
    """The archives below these directories; a manifest is parsed again when it has changed."""
    found = []
    for path in sorted(path for root in folders for path in root.glob(f"**/{_MANIFEST}")):
        try:
            changed_ns = path.stat().st_mtime_ns
            found.append(_read(path, changed_ns))
        except (OSError, CommandFailed) as failure:
            found.append(Archive(str(path.parent), str(failure)))
    return found


@lru_cache(maxsize=_KEPT)
def _read(path: Path, changed_ns: int) -> Archive:
    """Raises OSError or CommandFailed"""
    from barnabas.spark.archive.archive_manifest import parse_manifest

    manifest = parse_manifest(path.read_text(encoding="utf-8"), str(path))
    partitions = {
        TopicPartition(name, number): each
        for name, topic in sorted(manifest.topics.items())
        for number, each in topic.partitions.items()
    }
    return Archive(
        str(path.parent),
        topics={name: topic.topic_id for name, topic in sorted(manifest.topics.items())},
        files=len(manifest.files),
        records=sum(each.records for each in partitions.values()),
        bytes=sum(file.bytes for file in manifest.files),
        ends={at: each.end for at, each in partitions.items()},
    )


async def archive_lags(
    client: ConsoleClient, index: TopicIndex, archives: list[Archive]
) -> dict[str, int | None]:
    """How many records each archive is behind, by its path.

    None if a topic of it is not in this cluster, or a leader does not answer.
    """
    rows = [
        index.topics[name]
        for name in sorted({name for each in archives for name in each.topics})
        if name in index.topics
    ]
    leaders = leaders_of(rows)
    ends = await client.offsets(leaders, leaders, LATEST)
    return {each.path: _lag(each, index, leaders, ends) for each in archives}


def _lag(
    archive: Archive,
    index: TopicIndex,
    leaders: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> int | None:
    for name, topic_id in archive.topics.items():
        if name not in index.topics or topic_id_of(index.topics[name]) != topic_id:
            return None
    wanted = [at for at in leaders if at.topic in archive.topics]
    if archive.error or any(at not in ends for at in wanted):
        return None
    return sum(max(0, ends[at] - archive.ends.get(at, 0)) for at in wanted)


def topic_id_of(row: TopicRow) -> str:
    """The id as Kafka's tools show it."""
    return base64.urlsafe_b64encode(row.topic_id.bytes).decode().rstrip("=")
