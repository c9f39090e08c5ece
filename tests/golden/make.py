"""The generator of the golden files, with a real Kafka: `python -m tests.golden.make`."""

import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.base.ids import BrokerId, LeaderEpoch
from barnabas.znodes import layout
from tests.golden.observe import DUMPED, WITHOUT_INDEXES, observe_files, observe_topics
from tests.golden.topics import INDEX_BYTES, TOPICS
from tests.golden.workload import Workload
from tests.support.apache_kafka import VERSION, ApacheKafka, apache_kafka
from tests.support.kafka_broker import KafkaBroker, ZooKeeper, running_kafka, running_zookeeper

GOLDEN: Final = Path(__file__).parent / f"kafka-{VERSION}"

# No retention by age; all other periodic work of Kafka happens at once.
_PROPERTIES: Final = {
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.index.size.max.bytes": str(INDEX_BYTES),
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "transactional.id.expiration.ms": "2000000000",
}


def make(golden: Path) -> None:
    """Write `clean`, after a clean stop, and `killed`, after a SIGKILL; each with its JSON."""
    kafka = apache_kafka()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with running_zookeeper(kafka, work / "zookeeper") as zookeeper:
            broker = KafkaBroker(zookeeper, work / "kafka", work / "data", _PROPERTIES)
            with running_kafka(broker):
                workload = Workload(broker.bootstrap, broker.data)
                workload.create()
                workload.first()
                broker.stop()
            _begin_leader_epoch(zookeeper, 3)
            with running_kafka(broker):
                workload.second()
                open_transaction = workload.begin_and_leave_open()
                observed = observe_topics(broker.bootstrap)
                broker.stop()
                _keep(kafka, broker.data, golden / "clean", observed, DUMPED)
            _begin_leader_epoch(zookeeper, 4)
            with running_kafka(broker):
                workload.third()
                observed = observe_topics(broker.bootstrap)
                broker.kill()
                _keep(kafka, broker.data, golden / "killed", observed, WITHOUT_INDEXES)
            del open_transaction


def _begin_leader_epoch(zookeeper: ZooKeeper, epoch: int) -> None:
    """Raise the leader epoch as a controller does: a single broker would keep it."""
    state = layout.LeaderAndIsr(BrokerId(0), LeaderEpoch(epoch), 1, (BrokerId(0),))
    encoded = layout.encode_partition_state(state).decode()
    zookeeper.enter(
        *(f"set /brokers/topics/{topic}/partitions/0/state {encoded}" for topic in TOPICS)
    )


def _keep(
    kafka: ApacheKafka, data: Path, target: Path, partitions: dict[str, Any], dumped: Sequence[str]
) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(data, target, ignore=shutil.ignore_patterns(".lock", "*.deleted", "*-delete"))
    files = observe_files(kafka, target, dumped)
    made_at_ms = round(time.time() * 1000)
    with target.with_suffix(".json").open("w") as output:
        output.write(f'{{"made_at_ms": {made_at_ms},\n"partitions": {_lines(partitions)},\n')
        output.write(f'"files": {_lines(files)}}}\n')


def _lines(items: dict[str, Any]) -> str:
    """One item per line: readable and small."""
    texts = (
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}"
        for name, value in items.items()
    )
    return "{\n" + ",\n".join(texts) + "}"


if __name__ == "__main__":
    make(GOLDEN)
