"""The workloads of the simulation on a real loop: a cluster without faults keeps every promise."""

import asyncio

from barnabas.base.randomness import Random
from barnabas.sim.checkers import check
from barnabas.sim.clients_final import read_final
from barnabas.sim.history import Create, History, Outcome, Poll, Send
from barnabas.sim.workloads_chosen import choose
from barnabas.testing import Cluster
from tests.sim.test_clients import bootstrap, run

WORK_S = 1.0


def test_a_cluster_without_faults_keeps_every_promise() -> None:
    with Cluster(brokers=3) as cluster:

        async def scenario() -> None:
            history = History(asyncio.get_running_loop().time)
            workloads = choose(bootstrap(cluster), Random(1), history)
            async with asyncio.TaskGroup() as group:
                for workload in workloads:
                    group.create_task(workload.run())
                await asyncio.sleep(WORK_S)
                for workload in workloads:
                    workload.stop()
            final = await read_final(bootstrap(cluster), Random(2), {}, quiet_s=0.5)
            assert check(history, final) == []
            done = {type(op.asked) for op in history.operations if op.outcome is Outcome.OK}
            assert done >= {Create, Send, Poll}
            assert sum(len(end.records) for end in final.partitions) > 10

        run(scenario())
