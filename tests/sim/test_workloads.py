"""The workloads against a real cluster without faults."""

import asyncio

from barnabas.base.randomness import Random
from barnabas.sim.checkers.all_checkers import check
from barnabas.sim.checkers.history import (
    FADING,
    Commit,
    Create,
    Hold,
    OperationHistory,
    OperationOutcome,
    Own,
    Poll,
    Recall,
    Send,
)
from barnabas.sim.checkers.violations import FinalPartition, FinalState
from barnabas.sim.clients.client_connections import partitions
from barnabas.sim.clients.consumer_client import Consumer
from barnabas.sim.workloads.chosen_workloads import choose
from barnabas.testing import Cluster
from tests.server.raw import until
from tests.sim.test_client_connections import bootstrap, polled, run

SEED = 2  # one that has all kinds of clients
EVERYTHING = {Create, Send, Poll, Own, Hold, Recall, Commit}


async def read_all(cluster: Cluster) -> FinalState:
    """The records that a consumer reads after all writes."""
    history = OperationHistory(asyncio.get_running_loop().time)
    consumer = Consumer("final", bootstrap(cluster), Random(3), history)
    await consumer.connections.refresh()
    consumer.assign(dict.fromkeys(partitions(consumer.connections), 0))
    while any(
        position < consumer.high_watermarks.get(at, 1 << 62)
        for at, position in consumer.positions.items()
    ):
        await consumer.poll()
    consumer.close()
    return FinalState(
        tuple(
            FinalPartition(
                at,
                leader.topic_id,
                consumer.high_watermarks[at],
                tuple(records),
                records[0][0] if records and at.topic == FADING else 0,
            )
            for at in consumer.positions
            for records in [polled(history, at)]
            for leader in [consumer.connections.leader(at)]
            if leader is not None
        )
    )


def succeeded(history: OperationHistory) -> set[type[object]]:
    return {type(each.asked) for each in history.operations if each.outcome is OperationOutcome.OK}


def test_a_cluster_without_faults_has_no_violations() -> None:
    quick = {"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000"}
    with Cluster(brokers=3, config=quick) as cluster:

        async def scenario() -> None:
            history = OperationHistory(asyncio.get_running_loop().time)
            workloads = choose(bootstrap(cluster), Random(SEED), history)
            async with asyncio.TaskGroup() as group:
                for workload in workloads:
                    group.create_task(workload.run())
                await until(lambda: succeeded(history) >= EVERYTHING)
                for workload in workloads:
                    workload.stop()
            final = await read_all(cluster)
            assert check(history, final) == []
            assert sum(len(end.records) for end in final.partitions) > 10

        run(scenario())
