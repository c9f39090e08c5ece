"""`barnabas` with fake brokers, which behave as the environment variable FAKE_BROKER says."""

import os
import sys
from functools import partial

from barnabas.cli.cluster import cluster_run
from barnabas.cli.cluster.cluster_dir import BrokerFiles
from barnabas.cli.cluster.cluster_supervisor import Supervisor
from barnabas.cli.main import main


def command(files: BrokerFiles) -> list[str]:
    how = os.environ.get("FAKE_BROKER", "ready")
    return [sys.executable, "-m", "tests.cli.fake_broker", how, str(files.properties)]


if __name__ == "__main__":
    setattr(cluster_run, "Supervisor", partial(Supervisor, command=command))  # noqa: B010 - no type for it
    main()
