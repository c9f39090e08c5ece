"""`--command-config` and `-X` on commands that connect."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from barnabas.cli.commands import _COMMANDS, _load
from barnabas.cli.connecting import given_properties, given_security, with_connection_options
from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import Bootstrap
from barnabas.client.librdkafka_names import librdkafka_names
from barnabas.security.certificate_authority import CertificateAuthority

_NO_BROKERS = {"BARNABAS_BOOTSTRAP": None}


def command(bootstrap: Bootstrap = "x") -> dict[str, str]:
    return dict(given_properties())


def test_the_file_counts_before_nothing_and_after_the_options(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nssl.key.password=a\nacks=all\n")
    wrapped = with_connection_options(command)
    found = wrapped(
        bootstrap="x", command_config=file, connection_properties=["ssl.key.password=b"]
    )
    assert found == {"security.protocol": "SSL", "ssl.key.password": "b"}
    assert given_properties() == {}
    assert {"command_config", "connection_properties"} <= set(inspect.signature(wrapped).parameters)


@pytest.mark.parametrize(
    ("given", "used"), [([], "a:1,b:2"), (["-b", "default:9092"], "default:9092")]
)
def test_the_file_names_the_brokers_unless_the_command_line_does(
    tmp_path: Path, given: list[str], used: str
) -> None:
    found: list[str] = []

    def connecting(bootstrap: Bootstrap = "default:9092") -> None:
        found.append(bootstrap)

    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=a:1,b:2\n")
    app = typer.Typer()
    app.command()(with_connection_options(connecting))
    result = CliRunner().invoke(app, [*given, "--command-config", str(file)], env=_NO_BROKERS)
    assert (result.exit_code, found) == (0, [used])
    found.clear()
    file.write_text("acks=all\n")
    CliRunner().invoke(app, ["--command-config", str(file)], env=_NO_BROKERS)
    assert found == ["default:9092"]


def test_a_file_that_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(Misused, match="--command-config"):
        with_connection_options(command)(bootstrap="x", command_config=tmp_path / "none")


def test_a_property_that_cannot_be_meant_is_a_usage_error() -> None:
    def connecting(bootstrap: Bootstrap = "x") -> Any:
        return given_security()

    with pytest.raises(Misused, match=r"security\.protocol"):
        with_connection_options(connecting)(
            bootstrap="x", connection_properties=["security.protocol=TLS"]
        )


def test_javas_names_become_those_of_librdkafka(tmp_path: Path) -> None:
    authority = CertificateAuthority.create(tmp_path)
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": 'PlainLoginModule required username="u" password="p";',
        "ssl.truststore.location": str(authority.certificate_file),
        "ssl.truststore.type": "PEM",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert librdkafka_names(java) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.pem": authority.certificate_file.read_text(),
        "ssl.endpoint.identification.algorithm": "none",
    }


def _leaves(loaded: Any) -> list[Any]:
    subcommands = getattr(loaded, "commands", None)
    return [loaded] if not subcommands else [x for c in subcommands.values() for x in _leaves(c)]


def test_every_command_that_connects_has_both_options() -> None:
    # A project's file names the brokers; a mirror has two clusters.
    others = {("pipeline", "init"), ("pipeline", "run"), ("pipeline", "mirror")}
    for name, module in _COMMANDS.items():
        if not module.startswith(("cli.", "console.", "spark.")):
            continue
        for leaf in _leaves(_load(name)):
            options = {option for parameter in leaf.params for option in parameter.opts}
            if "--bootstrap-server" in options and (name, leaf.name) not in others:
                assert {"--command-config", "-X"} <= options, f"{name} {leaf.name}"
