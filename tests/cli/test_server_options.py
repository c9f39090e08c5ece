"""The options of `barnabas server`, and the configs it rejects before it starts."""

import socket
from pathlib import Path

import pytest

from barnabas.base.errors import ConfigError
from barnabas.cli.server.server_run import gather_properties, server
from barnabas.config.broker_config import BrokerConfig
from tests.cli.conftest import Barnabas


def gathered(
    *overrides: str, listen: str | None = None, data: Path | None = None
) -> dict[str, str]:
    return gather_properties(None, listen, data, None, None, overrides)


@pytest.mark.parametrize(
    ("listen", "listeners"),
    [
        ("127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092"),
        ("localhost:0", "PLAINTEXT://localhost:0"),
        ("[::1]:9092", "PLAINTEXT://[::1]:9092"),
        (":9092", "PLAINTEXT://:9092"),
        ("0.0.0.0:9092", "PLAINTEXT://:9092"),
        ("[::]:9092", "PLAINTEXT://:9092"),
    ],
)
def test_an_address_to_listen_on_becomes_a_listener(listen: str, listeners: str) -> None:
    assert gathered(listen=listen)["listeners"] == listeners


@pytest.mark.parametrize(
    "listen", ["foo", "127.0.0.1", "PLAINTEXT://h:1", "::1:9092", "h:", "h:-1"]
)
def test_an_invalid_listen_address_is_rejected_with_an_example(listen: str) -> None:
    with pytest.raises(ConfigError, match=r"--listen .* expected HOST:PORT such as 127\.0\.0\.1"):
        gathered(listen=listen)


def test_a_port_out_of_range_is_rejected() -> None:
    with pytest.raises(ConfigError, match="port 99999 is out of range 0 to 65535"):
        gathered(listen="127.0.0.1:99999")


def test_a_port_in_use_is_reported_with_a_remedy(tmp_path: Path, offline: Barnabas) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = offline("server", "--listen", address, "--data", tmp_path / "data")
    assert ended.code == 1
    assert f"{address}: address already in use; " in ended.err
    assert "use another port with --listen" in ended.err
    assert not (tmp_path / "data").exists()


def test_an_unreachable_zookeeper_is_reported_after_a_wait(
    tmp_path: Path, offline: Barnabas, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barnabas.server")
    timeout = "zookeeper.connection.timeout.ms=1500"
    nowhere = ("--zookeeper", "127.0.0.1:1", "--data", tmp_path, "--listen", "127.0.0.1:0")
    ended = offline("server", "--node-id", 0, *nowhere, "-o", timeout)
    assert ended.code == 1
    assert "barnabas: no ZooKeeper server at 127.0.0.1:1 responded within 1500 ms" in ended.err
    assert "waiting for ZooKeeper at 127.0.0.1:1" in caplog.text


def test_a_file_instead_of_the_log_directory_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match="not a directory"):
        gathered(data=tmp_path / "data")


def test_the_directory_of_a_cluster_is_not_used_as_a_log_directory(tmp_path: Path) -> None:
    (tmp_path / "broker-0").mkdir()
    (tmp_path / "broker-0" / "server.properties").write_text("")
    error = f"{tmp_path} is the directory of a cluster; .* --config {tmp_path}/broker-N/server.prop"
    with pytest.raises(ConfigError, match=error):
        gathered(data=tmp_path)


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("process.roles=broker,controller", "process.roles: KRaft is not supported"),
    ],
)
def test_kraft_is_rejected(override: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        gathered(override)


@pytest.mark.parametrize(
    "override",
    [
        "sasl.kerberos.service.name=kafka",
        "listener.name.plaintext.sasl.kerberos.service.name=kafka",
        "zookeeper.ssl.crl.enable=true",
        "ssl.something.new=1",
    ],
)
def test_a_broker_does_not_run_without_the_security_it_is_asked_for(
    tmp_path: Path, offline: Barnabas, override: str
) -> None:
    data = tmp_path / "data"
    ended = offline("server", "--listen", "127.0.0.1:0", "--data", data, "-o", override)
    assert ended.code == 2
    name = override.partition("=")[0]
    assert f"{name}: not supported; remove" in ended.err
    assert not data.exists()


def test_a_listener_name_cannot_hide_another_security_protocol(
    tmp_path: Path, offline: Barnabas
) -> None:
    options = ["-o", "listeners=PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0"]
    options += ["-o", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:SSL"]
    ended = offline("server", "--data", tmp_path / "data", *options)
    assert ended.code == 2
    assert "listener OUT: ssl.keystore.location: a listener with TLS needs a key" in ended.err


def test_security_properties_with_their_defaults_ask_for_nothing() -> None:
    harmless = {"ssl.client.auth": "none", "sasl.enabled.mechanisms": "GSSAPI"}
    harmless |= {"authorizer.class.name": "", "zookeeper.set.acl": "false"}
    assert BrokerConfig.from_properties(harmless).unserved_security() == []


def test_options_override_the_file_and_overrides_override_both(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nlog.dirs=/a\nnum.partitions=2\nlog.retention.hours=1\n")
    properties = gather_properties(
        file, None, Path("b"), 7, None, ["num.partitions=5", "log.retention.hours = 3"]
    )
    assert (properties["broker.id"], properties["log.dirs"]) == ("7", "b")
    assert (properties["num.partitions"], properties["log.retention.hours"]) == ("5", "3")


def test_the_zookeeper_option_sets_zookeeper_connect() -> None:
    properties = gather_properties(None, None, None, 2, "zk1:2181,zk2:2181/chroot", [])
    assert properties["zookeeper.connect"] == "zk1:2181,zk2:2181/chroot"
    assert properties["broker.id"] == "2"


def test_the_metrics_option_sets_the_listener_and_an_invalid_one_is_rejected(
    tmp_path: Path,
) -> None:
    properties = gather_properties(None, None, None, None, None, [], "127.0.0.1:9192")
    assert properties["barnabas.metrics.listener"] == "127.0.0.1:9192"
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        server(None, ":0", tmp_path, None, None, [], "9192")
