"""Comparison of the views of a cluster: controller context, znodes, brokers' metadata and disks."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.base.ids import TopicPartition
from barnabas.znodes import layout, paths

REACHED_WITHIN_S: Final = 10
_KAZOO: Any = KazooClient  # it has no types
# Znodes with requests to the controller, which it deletes when they are done.
_REQUESTS: Final = (
    paths.DELETE_TOPICS,
    paths.ISR_CHANGE_NOTIFICATION,
    paths.LOG_DIR_EVENT_NOTIFICATION,
)
_REQUEST_NODES: Final = (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION)


@contextmanager
def znodes(zookeeper: str) -> Iterator[Any]:
    """A ZooKeeper session of the test."""
    client = _KAZOO(hosts=zookeeper, timeout=REACHED_WITHIN_S)
    client.start(timeout=REACHED_WITHIN_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def registered(zookeeper: str) -> list[int]:
    """The brokers that have a znode."""
    with znodes(zookeeper) as client:
        return sorted(map(int, client.get_children(paths.BROKER_IDS)))


def read_znodes(zookeeper: str) -> dict[str, Any]:
    """Brokers, controller, epoch and partitions in the tree, and pending requests.

    Raises  NoNodeError without a controller, or while a topic is being created
    """
    with znodes(zookeeper) as client:
        controller, epoch = _values(client, [paths.CONTROLLER, paths.CONTROLLER_EPOCH])
        topics = _topics(client)
        states = _states(client, topics)
        return {
            "brokers": sorted(map(int, client.get_children(paths.BROKER_IDS))),
            "controller": layout.decode_controller(controller).broker_id,
            "epoch": layout.decode_controller_epoch(epoch),
            "partitions": {
                str(each): (
                    list(topics[each.topic].partitions[each.partition]),
                    state.leader,
                    state.leader_epoch,
                    sorted(state.isr),
                )
                for each, state in states.items()
            },
            "controller_epochs": {str(each): s.controller_epoch for each, s in states.items()},
            "moving": sorted(
                f"{name}-{index}"
                for name, topic in topics.items()
                for index in {**topic.adding, **topic.removing}
            ),
            "asked": [
                *(f"{path}/{child}" for path in _REQUESTS for child in client.get_children(path)),
                *(path for path in _REQUEST_NODES if client.exists(path) is not None),
            ],
        }


def _topics(client: Any) -> dict[str, layout.TopicAssignment]:
    names = sorted(client.get_children(paths.TOPICS))
    values = _values(client, [paths.topic_path(name) for name in names])
    return {
        name: layout.decode_topic(name, value) for name, value in zip(names, values, strict=True)
    }


def _states(
    client: Any, topics: Mapping[str, layout.TopicAssignment]
) -> dict[TopicPartition, layout.LeaderAndIsr]:
    partitions = [
        TopicPartition(name, index) for name in topics for index in topics[name].partitions
    ]
    values = _values(client, [paths.partition_state_path(each) for each in partitions])
    return {
        each: layout.decode_partition_state(each, value)
        for each, value in zip(partitions, values, strict=True)
    }


def _values(client: Any, wanted: Iterable[str]) -> list[bytes]:
    asked = [client.get_async(path) for path in wanted]
    return [each.get(timeout=REACHED_WITHIN_S)[0] for each in asked]


def elected(zookeeper: str) -> int | None:
    """The broker in /controller, or None."""
    with znodes(zookeeper) as client:
        try:
            return layout.decode_controller(client.get(paths.CONTROLLER)[0]).broker_id
        except NoNodeError:
            return None


def children(zookeeper: str, path: str) -> list[str]:
    with znodes(zookeeper) as client:
        return sorted(client.get_children(path))


def znodes_if_whole(zookeeper: str) -> dict[str, Any] | None:
    try:
        return read_znodes(zookeeper)
    except NoNodeError:
        return None


# -- comparing ---------------------------------------------------------------


def context_and_znodes(state: dict[str, Any], tree: dict[str, Any]) -> Iterator[str]:
    """The differences of the controller's context from the tree."""
    yield from _compare("context", _from_context(state), tree["partitions"])
    if sorted(map(int, state["brokers"])) != tree["brokers"]:
        yield f"brokers: context {sorted(state['brokers'])}, znodes {tree['brokers']}"
    if state["epoch"] != tree["epoch"]:
        yield f"epoch: context {state['epoch']}, znodes {tree['epoch']}"
    if state["broker"] != tree["controller"]:
        yield f"controller: {state['broker']}, znode {tree['controller']}"


def znodes_in_themselves(tree: dict[str, Any]) -> Iterator[str]:
    """Violations of invariants of the tree."""
    for name, (replicas, leader, _, isr) in tree["partitions"].items():
        if not isr or any(each not in replicas for each in isr):
            yield f"{name}: ISR {isr} is not of the replicas {replicas}"
        if leader != -1 and leader not in isr:
            yield f"{name}: leader {leader} is not in the ISR {isr}"
        if tree["controller_epochs"][name] > tree["epoch"]:
            yield f"{name}: written by controller epoch {tree['controller_epochs'][name]}"


def metadata_and_znodes(number: int, metadata: Any, tree: dict[str, Any]) -> Iterator[str]:
    """The differences of one broker's metadata from the tree."""
    yield from _compare(f"broker {number}", _from_metadata(metadata), tree["partitions"])
    if sorted(b.node_id for b in metadata.brokers) != tree["brokers"]:
        yield f"broker {number} knows other brokers than the znodes"
    if metadata.controller_id != tree["controller"]:
        yield f"broker {number} takes {metadata.controller_id} for the controller"


def disk_and_znodes(number: int, folders: Iterable[Path], tree: dict[str, Any]) -> Iterator[str]:
    """Logs of deleted topics, and missing logs.

    A log whose partition was reassigned while the broker was down stays, as in Kafka.
    """
    logs = sorted(_logs(folders))
    topics = {name.rpartition("-")[0] for name in tree["partitions"]}
    for name in logs:
        if name.rpartition("-")[0] not in topics:
            yield f"broker {number} has a log of {name}, which does not exist"
    for name, (replicas, *_) in tree["partitions"].items():
        if number in replicas and name not in logs:
            yield f"broker {number} has no log of {name}"


def unsettled(state: dict[str, Any], tree: dict[str, Any]) -> Iterator[str]:
    """Operations in progress, and replicas of running brokers that are not in sync."""
    yield from (f"asked in the znodes: {path}" for path in tree["asked"])
    yield from (f"being moved: {name}" for name in tree["moving"])
    if state["queue"]["length"]:
        yield f"events wait: {state['queue']['length']}"
    for name, each in state["partitions"].items():
        alive = [number for number in each["replicas"] if number in tree["brokers"]]
        if each["state"] != "Online" and alive:
            yield f"{name} is {each['state']}"
        if sorted(each["isr"]) != sorted(alive) and alive:
            yield f"{name}: ISR {each['isr']}, alive of its replicas are {alive}"


def _logs(folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        for path in folder.iterdir() if folder.exists() else ():
            name, dash, partition = path.name.rpartition("-")
            if dash and partition.isdigit() and path.is_dir() and name:
                yield path.name


def _compare(who: str, told: dict[str, Any], tree: dict[str, Any]) -> list[str]:
    return [
        f"{who}: {name} is {told.get(name)}, in the znodes {tree.get(name)}"
        for name in sorted({*told, *tree})
        if told.get(name) != tree.get(name)
    ]


def _from_context(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (each["replicas"], each["leader"], each["leader_epoch"], sorted(each["isr"]))
        for name, each in state["partitions"].items()
    }


def _from_metadata(metadata: Any) -> dict[str, Any]:
    return {
        str(TopicPartition(topic.name, each.partition_index)): (
            list(each.replica_nodes),
            each.leader_id,
            each.leader_epoch,
            sorted(each.isr_nodes),
        )
        for topic in metadata.topics
        for each in topic.partitions
    }
