"""The controlled shutdown of a broker that `barnabas cluster` runs on this machine.

Kafka's protocol has no request for it: ControlledShutdown is between a broker that stops and its
controller. The signal to the broker's process begins it.
"""

import os
import signal
from typing import Final

from barnabas.cli.cluster.cluster_dir import ClusterDir
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.web.actions import Form, Plan, action, check_operator, integer
from barnabas.console.web.page import Page


def pids_of(page: Page, brokers: list[int]) -> dict[int, int]:
    """The processes of the brokers that this console can shut down."""
    folder = page.state.options.cluster
    if folder is None:
        return {}
    directory = ClusterDir(folder)
    found = {broker: directory.pid_of(broker) for broker in brokers}
    return {broker: pid for broker, pid in found.items() if pid is not None}


async def plan_shutdown(page: Page, form: Form) -> Plan:
    await check_operator(page)
    broker = integer(form, "broker", 0, "The broker")
    if broker not in pids_of(page, [broker]):
        raise ClusterFailed(
            f"broker {broker} is not a process of `barnabas cluster --console` on this machine;"
            " send SIGTERM to its process where it runs"
        )

    async def carry_out() -> str:
        pid = pids_of(page, [broker]).get(broker)
        if pid is None:
            raise ClusterFailed(f"broker {broker} has stopped already")
        os.kill(pid, signal.SIGTERM)
        return f"Broker {broker} shuts down."

    index = await page.cluster.index.get()
    partitions = [each for row in index.topics.values() for each in read_partitions(row)]
    led = [each for each in partitions if each.leader == broker]
    alone = sum(len(each.isr) == 1 for each in led)
    effects = [
        f"Broker {broker} hands over its {len(led)} leaders, closes its logs and stops.",
        "`barnabas cluster` starts it again if it runs with --restart; else it stays down, and"
        " its output says how to start it.",
    ]
    if alone:
        effects.append(f"{alone} partitions have no other replica in sync: they go offline.")
    title = f"Shut down broker {broker}"
    return Plan(title, effects, "Shut down", carry_out, "cluster", is_dangerous=True)


ROUTES: Final = (action("/cluster/shutdown", "shut down a broker", plan_shutdown),)
