"""A Spark Connect server in processes of its own."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from barnabas.base.ports import free_port
from tests.spark.spark_home import spark_home
from tests.support.cluster import until

STARTED_WITHIN_S: Final = 300.0
SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """The server's address; its work has two tasks at a time."""
    port, home = free_port(), spark_home(folder)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    given = [each for key, value in settings.items() for each in ("--conf", f"{key}={value}")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(home / "bin/spark-submit"), "--class", SERVER, "--master", "local[2]", *given],
            cwd=folder,
            env={**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until(lambda: answers(port), "the server to listen", STARTED_WITHIN_S)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
