"""The directory of a local cluster: files, lock and ports."""

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.cluster.cluster_dir import (
    METRICS_PORTS_ABOVE,
    BrokerFiles,
    ClusterDir,
    choose_metrics_ports,
    choose_ports,
)
from barnabas.cli.cluster.cluster_properties import (
    ClusterSettings,
    broker_properties,
    check_overrides,
)
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.properties import parse_properties, read_properties


def written(brokers: int, **overrides: str) -> dict[str, str]:
    given = {key.replace("_", "."): value for key, value in overrides.items()}
    choices = ClusterSettings(brokers, "127.0.0.1:2181/x", given)
    return parse_properties(broker_properties(choices, 2, 9094, Path("/d/data"), Path("/d/p")))


def test_a_broker_gets_its_id_listener_log_directory_and_zookeeper() -> None:
    properties = written(3)
    assert properties["broker.id"] == "2"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9094"
    assert properties["log.dirs"] == "/d/data"
    assert properties["zookeeper.connect"] == "127.0.0.1:2181/x"
    config = BrokerConfig.from_properties(properties)
    assert (config.warnings, config.not_acted_on()) == ((), [])


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (5, "3", "2")]
)
def test_the_replication_factor_is_the_number_of_brokers_up_to_three(
    brokers: int, copies: str, in_sync: str
) -> None:
    properties = written(brokers)
    assert properties["default.replication.factor"] == copies
    assert properties["offsets.topic.replication.factor"] == copies
    assert properties["min.insync.replicas"] == in_sync


def test_an_override_replaces_a_default() -> None:
    assert written(3, min_insync_replicas="3", num_partitions="6")["min.insync.replicas"] == "3"
    assert written(3, num_partitions="6")["num.partitions"] == "6"


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("broker.id", "7", "use --brokers"),
        ("listeners", "PLAINTEXT://:1", "use --base-port"),
        ("log.dirs", "/tmp", "use --data"),
        ("zookeeper.connect", "x:1", "use --zookeeper"),
        ("num.partitions", "many", "num.partitions"),
    ],
)
def test_an_invalid_or_per_broker_override_is_rejected(key: str, value: str, error: str) -> None:
    with pytest.raises(Misused, match=error):
        check_overrides({key: value})


@pytest.mark.parametrize("value", ["a=b:c", "\\:", "a\\\\=b", " x", "#1"])
def test_special_characters_in_an_override_survive(value: str) -> None:
    assert written(3, some_key=value)["some.key"] == value


def test_a_brokers_files_are_where_the_manual_says(tmp_path: Path) -> None:
    files = BrokerFiles(1, 9093, tmp_path)
    files.write(ClusterSettings(3, "127.0.0.1:2181", {}))
    assert files.pid == tmp_path / "broker-1.pid"
    assert read_properties(tmp_path / "broker-1" / "server.properties")["broker.id"] == "1"
    assert (files.address, files.is_in_use) == ("127.0.0.1:9093", False)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[ClusterDir]:
    directory = ClusterDir(tmp_path / "cluster")
    yield directory
    directory.close()


def test_a_directory_is_locked_by_one_cluster_at_a_time(directory: ClusterDir) -> None:
    directory.open()
    other = ClusterDir(directory.path)
    with pytest.raises(CommandFailed, match=rf"in use by another .* \(pid {os.getpid()}\)"):
        other.open()
    directory.close()
    other.open()
    other.close()


def test_stale_pid_files_are_removed(directory: ClusterDir) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    directory.path.mkdir()
    # This process is alive but not a broker of this directory: the pid was reused.
    for name, text in {"broker-0": ended.pid, "broker-1": os.getpid(), "zookeeper": ""}.items():
        (directory.path / f"{name}.pid").write_text(f"{text}\n")
    directory.open()
    assert list(directory.path.glob("*.pid")) == []


def test_a_running_broker_of_an_earlier_run_is_reported(directory: ClusterDir) -> None:
    directory.path.mkdir()
    config = f"{directory.path}/broker-1/server.properties"
    waiting = [sys.executable, "-c", "input('up')", "server", "--config", config]
    pipe = subprocess.PIPE
    with subprocess.Popen(waiting, stdin=pipe, stdout=pipe) as process:
        try:
            assert process.stdout is not None
            process.stdout.read(2)  # a process has no command line for a moment after its start
            (directory.path / "broker-1.pid").write_text(f"{process.pid}\n")
            error = rf"broker-1 \(pid {process.pid}\); stop with: kill {process.pid}$"
            with pytest.raises(CommandFailed, match=error):
                directory.open()
        finally:
            process.kill()
    directory.open()


def test_a_broker_started_by_hand_is_reported(directory: ClusterDir) -> None:
    data = directory.path / "broker-0" / "data"
    data.mkdir(parents=True)
    with (data / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(CommandFailed, match=r"broker 0 .* is already running, started by hand"):
            directory.open()
    directory.open()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not report the pid")
def test_a_broker_started_by_hand_is_reported_with_its_pid(directory: ClusterDir) -> None:
    data = directory.path / "broker-0" / "data"
    data.mkdir(parents=True)
    hold = (
        "import sys; from barnabas.disk.disk import RealDisk; disk = RealDisk(sys.argv[1]);"
        "lock = disk.lock('.lock'); print('held', flush=True); sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", hold, str(data)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(CommandFailed, match=rf"stop it with: kill {process.pid}$"):
            directory.open()
        process.kill()
    directory.open()


def test_a_file_instead_of_the_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misused, match="not a directory"):
        ClusterDir(tmp_path / "file").open()


def test_the_log_directory_of_a_single_broker_is_rejected(
    tmp_path: Path,
) -> None:
    (tmp_path / "meta.properties").write_text("version=0\n")
    with pytest.raises(Misused, match="is the log directory of a single broker"):
        ClusterDir(tmp_path).open()
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


def test_brokers_of_an_earlier_larger_cluster_are_listed(directory: ClusterDir) -> None:
    for name in ("broker-0", "broker-2", "broker-10", "broker-x"):
        (directory.path / name).mkdir(parents=True)
    assert directory.left_out(2) == ["2", "10"]


def test_ports_are_consecutive_or_free_ones() -> None:
    ports = choose_ports(0, 3)
    assert len(set(ports)) == 3
    assert choose_ports(ports[0], 1) == ports[:1]


def test_metrics_ports_are_1000_above_client_ports_or_free_ones() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        above: int = taken.getsockname()[1]
        ports = [above - METRICS_PORTS_ABOVE, 65_000, *choose_ports(0, 1)]
        metrics = choose_metrics_ports(ports)
    assert len({*ports, *metrics, above}) == 7
    if metrics[2] != ports[2] + METRICS_PORTS_ABOVE:
        with pytest.raises(CommandFailed, match="in use"):
            choose_ports(ports[2] + METRICS_PORTS_ABOVE, 1)


def test_the_metrics_listener_is_set_per_broker_and_cannot_be_overridden(
    tmp_path: Path,
) -> None:
    files = BrokerFiles(1, 9093, tmp_path, metrics_port=10093)
    files.write(ClusterSettings(3, "127.0.0.1:2181", {}))
    assert read_properties(files.properties)["barnabas.metrics.listener"] == "127.0.0.1:10093"
    with pytest.raises(Misused, match="differs per broker; use --base-port"):
        check_overrides({"barnabas.metrics.listener": ":1"})


def test_ports_in_use_are_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandFailed, match=rf"port {port} is in use"):
            choose_ports(port, 1)
    with pytest.raises(Misused, match="port 65536 is out of range"):
        choose_ports(65535, 2)
