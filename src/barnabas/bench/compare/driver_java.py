"""The Java client, by the performance tools of the fetched Kafka release."""

import sys
from typing import Final

from barnabas.bench.compare.client_driver import Driver, Unavailable
from barnabas.bench.compare.kafka_release import AS_SHIPPED, ENDING_WITH_US, VERSION, find_kafka

_PROGRAM: Final = "barnabas.bench.drivers.drive_java"
# As Kafka's own scripts run these tools: a smaller heap than a broker's, all else the same.
_OPTIONS: Final = ("-Xmx512M", *(each for each in AS_SHIPPED if not each.startswith("-Xm")))


def java() -> Driver | Unavailable:
    release = find_kafka()
    if isinstance(release, Unavailable):
        return release
    run_java = release.java_command("", options=_OPTIONS)[:-1]
    command = (sys.executable, "-m", _PROGRAM, *ENDING_WITH_US, *run_java)
    both = frozenset({"classic", "consumer"})
    return Driver("Java", command, VERSION, protocols=both, latencies=("mean",))
