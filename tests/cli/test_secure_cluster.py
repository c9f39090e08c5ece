"""`barnabas cluster --secure`: the admin gets in, and the tree keeps its secrets to the brokers."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from barnabas.cli.main import run

connect: Any = KazooClient
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def test_only_the_brokers_read_and_change_what_the_tree_keeps(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "c"
    command = [sys.executable, "-m", "barnabas.cli.main", "cluster", "-n", "2", "-p", "0"]
    for user in ("ann", "bob"):  # the second run uses the files of the first
        process = subprocess.Popen(
            [*command, "--data", str(data), "--secure"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process.stdout as output:
            assert output.readline().startswith("ready")
            properties = str(data / "client.properties")
            config = dict(
                line.split("=", 1)
                for line in (data / "broker-0" / "server.properties").read_text().splitlines()
                if line.startswith(("zookeeper.connect=", "listeners="))
            )
            address = config["listeners"].rpartition("/")[2].replace("\\", "")
            options = ["-b", address, "--command-config", properties]
            assert run(["users", "add", user, "--password", "secret", *options]) == 0
            zookeeper = config["zookeeper.connect"].replace("\\", "")
            stranger: Any = connect(zookeeper)
            stranger.start(30)
            try:
                assert stranger.get_children("/brokers/ids")
                with pytest.raises(NoAuthError):
                    stranger.get(f"/config/users/{user}")
                with pytest.raises(NoAuthError):
                    stranger.create("/config/users/eve", b"{}")
                with pytest.raises(NoAuthError):
                    stranger.set("/brokers/topics", b"")
                with pytest.raises(NoAuthError):
                    stranger.delete("/controller")
                with pytest.raises(NoAuthError):
                    stranger.create("/anything", b"")
            finally:
                stranger.stop()
                stranger.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    assert "can authenticate" in capfd.readouterr().out
