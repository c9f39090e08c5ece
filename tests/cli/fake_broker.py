"""A process that looks like a broker to its supervisor, and does nothing else.

Arguments: `ready`, `dead` (fails at once), `deaf` (ignores SIGTERM) or `mute` (is never ready);
then optionally a properties file, to answer Metadata with all brokers of its cluster.
"""

import signal
import sys
import time
from pathlib import Path


def main(how: str, properties: Path | None) -> int:
    if how == "dead":
        print("one\ntwo\nbarnabas: no space left on device", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.SIG_IGN if how == "deaf" else lambda *_: sys.exit(0))
    if properties is not None:
        listen(properties)
    if how != "mute":
        print("ready broker=0 listening on 127.0.0.1:1", flush=True)
    while True:
        time.sleep(60)


def listen(properties: Path) -> None:
    """Answer Metadata with every broker that has a directory beside this one's."""
    from tests.cli.scripted_cluster import ScriptedCluster, serve

    cluster = ScriptedCluster()
    for path in sorted(properties.parent.parent.glob("broker-*/server.properties")):
        text = path.read_text()
        port = text.partition("listeners=PLAINTEXT://127.0.0.1:")[2].partition("\n")[0]
        broker_id = int(path.parent.name.removeprefix("broker-"))
        if path == properties:
            serve(cluster, broker_id, int(port))
        cluster.ports[broker_id] = int(port)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]) if sys.argv[2:] else None))
