"""A simulated run, recorded for an animation: states of partitions, brokers, messages, faults.

`python -m barnabas.console.replay.sim_recording SEED SECONDS` runs the seed in a process with
bounds on memory and processor time, and prints the recording as JSON.
"""

import json
import resource
import sys
from typing import Any, Final

from barnabas.sim.sim_run import run
from barnabas.sim.world.seed_settings import settings_of
from barnabas.sim.world.sim_world import SimWorld

_MEMORY: Final = 3 * 1024**3
_PROCESSOR_S: Final = 120
_LOOK_S: Final = 0.05
_MOST_MESSAGES: Final = 5_000
_BROKER: Final = "broker-"


class SimRecorder:
    """Observes one run from the network: at every message, but not more often than 20 times a
    simulated second, it looks at the tree and the brokers."""

    def __init__(self) -> None:
        self.states: list[list[Any]] = []
        self.messages: list[list[Any]] = []
        self._last_s = -1.0

    def watch(self, world: SimWorld) -> None:
        began = world.loop.time()
        arrived = world.network.on_arrival

        def on_arrival(source: str, target: str, data: bytes) -> None:
            arrived(source, target, data)
            at_s = world.loop.time() - began
            self.messages.append([round(at_s, 4), source, target, len(data)])
            if at_s - self._last_s >= _LOOK_S:
                self._last_s = at_s
                self._look(world, round(at_s, 4))

        world.network.on_arrival = on_arrival

    def _look(self, world: SimWorld, at_s: float) -> None:
        partitions = {
            str(seen.topic_partition): [
                seen.state.leader,
                list(seen.state.isr),
                list(seen.replicas),
                seen.state.leader_epoch,
            ]
            for seen in world.observer.partitions()
            if seen.state is not None and not seen.topic_partition.topic.startswith("__")
        }
        brokers = {
            machine.name: "paused"
            if machine.is_paused
            else "up"
            if machine.broker is not None
            else "down"
            for machine in world.machines
        }
        state = [brokers, world.observer.controller, partitions]
        if not self.states or self.states[-1][1:] != state:
            self.states.append([at_s, *state])


def record(seed: int, seconds: float) -> dict[str, Any]:
    """The recording of a seed whose faults go on for so many simulated seconds."""
    recorder = SimRecorder()
    settings = settings_of(seed, seconds)
    report = run(settings, watch=recorder.watch)
    return {
        "seed": seed,
        "seconds": round(report.simulated_s, 3),
        "brokers": [f"{_BROKER}{number}" for number in range(settings.brokers)],
        "broken": list(report.broken),
        "faults": {kind: count for kind, count in sorted(report.faults.items()) if count},
        "operations": report.operations,
        "digest": report.digest,
        "states": recorder.states,
        "messages": thinned(recorder.messages),
        "lines": [[round(line.at, 4), line.who, line.what] for line in report.lines],
    }


def thinned(messages: list[list[Any]]) -> list[list[Any]]:
    """At most some thousand of them, evenly over the run."""
    step = -(-len(messages) // _MOST_MESSAGES) or 1
    return messages[::step]


if __name__ == "__main__":
    if sys.platform != "darwin":  # macOS does not limit memory so
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    json.dump(record(int(sys.argv[1]), float(sys.argv[2])), sys.stdout, separators=(",", ":"))
