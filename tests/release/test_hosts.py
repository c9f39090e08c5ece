"""The commands of docs/operate.md on hosts that are directories, and what they start as processes.

There is no systemd and no Docker: the unit's commands, the image's and the services' are run as
they stand, with their paths below a directory and their addresses on this machine.
"""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from confluent_kafka import Producer

from barnabas.base.ports import free_port
from tests.support.confluent_client import admin, only_result
from tests.support.documents import BIN, ROOT, document
from tests.support.host import Host, needs
from tests.support.snippets import commands
from tests.support.waiting import until

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="these commands are only on Linux"),
]

UNIT: Final = "/etc/systemd/system/barnabas.service"
CONFIG: Final = "/etc/barnabas/server.properties"
PROGRAM: Final = "/opt/barnabas/bin/barnabas"
STOPPED_WITHIN_S: Final = 60
# The lines that bring Barnabas from PyPI: test_dist.py runs them, with a release.
INSTALLING: Final = re.compile(r"^python3 -m venv |/pip install ")


def lines_for_hosts() -> list[str]:
    """The lines of the page that prepare a host, in their order."""
    lines = commands("docs/operate.md")
    first, last = (
        next(number for number, line in enumerate(lines) if line.startswith(program))
        for program in ("useradd ", "systemctl ")
    )
    return lines[first : last + 1]


@contextmanager
def running(command: list[str], folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """A command that serves, from its `ready` line on. It must end well if it is terminated."""
    with (
        (folder / "stderr").open("w") as errors,
        subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("ready "), (folder / "stderr").read_text()[-3000:]
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOPPED_WITHIN_S) in (0, -signal.SIGKILL)
        finally:
            process.kill()


def brokers_at(bootstrap: str) -> set[int]:
    client = admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return set(client.list_topics(timeout=10).brokers)


# -- hosts with systemd ------------------------------------------------------------


def linked(host: Host) -> None:
    """The program of this environment, instead of a release."""
    host.path(PROGRAM).parent.mkdir(parents=True)
    host.path(PROGRAM).symlink_to(BIN / "barnabas")


def test_a_host_is_prepared_as_the_page_shows(tmp_path: Path, zookeeper_chroot: str) -> None:
    needs("useradd", "systemctl")
    host = Host(tmp_path)
    linked(host)
    for line in lines_for_hosts():
        if not INSTALLING.search(line):
            host.run(line)
    check_host(host)
    run_unit(host, zookeeper_chroot)


def service(host: Host) -> configparser.SectionProxy:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment] # - systemd's keys have capitals
    unit.read(host.path(UNIT))
    return unit["Service"]


def check_host(host: Host) -> None:
    """The files and the user that the unit names exist, and the host starts it."""
    section = service(host)
    uid, _ = host.account(section["User"])
    assert uid < 1000  # a user of the system
    assert host.run("systemctl is-enabled barnabas") == "enabled\n"
    for command in (section["ExecStart"], section["ExecStopPost"].removeprefix("-")):
        program, _, option, config = shlex.split(command)[:4]
        assert (program, option, config) == (PROGRAM, "--config", CONFIG)
        assert os.access(host.path(program), os.X_OK)
    for file in (UNIT, CONFIG):
        assert host.path(file).stat().st_mode & 0o777 == 0o644


def run_unit(host: Host, zookeeper: str) -> None:
    """Do what systemd does: start it, stop it; start it again, and clean up after a crash."""
    section = service(host)
    bootstrap = f"127.0.0.1:{free_port()}"
    local = {
        r"^(advertised\.listeners|listeners)=.*": rf"\1=PLAINTEXT://{bootstrap}",
        r"^(zookeeper\.connect)=.*": rf"\1={zookeeper}",
        r"^(barnabas\.metrics\.listener)=.*": rf"\1=127.0.0.1:{free_port()}",
    }
    config = host.here(host.path(CONFIG).read_text())
    for pattern, replacement in local.items():
        config, count = re.subn(pattern, replacement, config, flags=re.M)
        assert count > 0, pattern
    host.path(CONFIG).write_text(config)
    state = host.path("/var/lib") / section["StateDirectory"]
    state.mkdir(parents=True)
    start = shlex.split(host.here(section["ExecStart"]))
    for is_killed in (False, True):
        with running(start, state) as process:
            assert brokers_at(bootstrap) == {1}
            if is_killed:
                process.kill()
                process.wait()
    host.run(section["ExecStopPost"].removeprefix("-"))


# -- containers ----------------------------------------------------------------------


def dockerfile() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and their arguments, in order."""
    text = re.sub(r" *\\\n *", " ", document("deploy/Dockerfile"))
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def arguments(instruction: str) -> str:
    (found,) = (rest for name, rest in dockerfile() if name == instruction)
    return found


def image_command(*command: str) -> list[str]:
    return [*json.loads(arguments("ENTRYPOINT")), *command]


def start_image(host: Host, folder: Path) -> None:
    """Run what the image runs, with its program, on free ports of this machine."""
    (path,) = re.findall(r"PATH=(\S+):\$PATH", arguments("ENV"))
    program, *options = image_command(*json.loads(arguments("CMD")))
    ports = {each: free_port() for each in map(int, arguments("EXPOSE").split())}
    words = [host.here(word) for word in options]
    for port, free in ports.items():
        (listening,) = (n for n, word in enumerate(words) if word == f"0.0.0.0:{port}")
        words[listening] = f"127.0.0.1:{free}"
    with running([str(host.path(path) / program), *words], folder):
        assert brokers_at(f"127.0.0.1:{ports[9092]}") == {0}


def test_the_user_of_the_image_owns_its_volume(tmp_path: Path) -> None:
    needs("useradd")
    host = Host(tmp_path)
    (line,) = (rest for name, rest in dockerfile() if name == "RUN" and "useradd" in rest)
    host.run(line)
    assert host.account("barnabas") == (int(arguments("USER")), arguments("VOLUME"))
    assert host.path(arguments("VOLUME")).is_dir()
    linked(host)
    start_image(host, tmp_path)


@pytest.mark.long
def test_the_image_is_built_and_serves(tmp_path: Path) -> None:
    """Each instruction of the Dockerfile, both stages below one root; with this Python."""
    needs("useradd")
    host = Host(tmp_path / "root")
    ignored = [line.removeprefix("**/") for line in document(".dockerignore").splitlines()]
    for name, rest in dockerfile():
        match name:
            case "COPY" if rest.startswith("--from=build "):
                _, source, target = rest.split()
                assert source == target  # it is there already
                assert host.path(target).is_dir()
            case "COPY":
                source, target = rest.split()
                into = host.path(target)
                shutil.copytree(ROOT / source, into, ignore=shutil.ignore_patterns(*ignored))
            case "RUN":
                host.run(rest.replace("python -m", f"{sys.executable} -m"), PYTHONPATH="")
    start_image(host, tmp_path)


def compose_file() -> Path:
    """That of the line of the page."""
    (line,) = (each for each in commands() if each.startswith("docker compose "))
    found = re.fullmatch(r"docker compose -f (\S+) up", line)
    assert found is not None, line
    return ROOT / found[1]


def local_command(
    service: Mapping[str, Any], zookeeper: str, folder: Path, inside: Mapping[str, str]
) -> tuple[list[str], str]:
    """The command of a service on this machine, and the address for clients of this machine."""
    (published,) = service["ports"]
    host, outer, inner = published.split(":")
    outside = f"{host}:{free_port()}"
    (volume,) = service["volumes"]
    words = []
    for word in image_command(*service["command"]):
        here = word.replace("zookeeper:2181", zookeeper)
        here = here.replace(volume.partition(":")[2], str(folder))
        here = re.sub(r"0\.0\.0\.0:9192", f"127.0.0.1:{free_port()}", here)
        here = re.sub(rf"(OUTSIDE://)(0\.0\.0\.0:{inner}|{host}:{outer})", rf"\g<1>{outside}", here)
        for name, address in inside.items():
            here = here.replace(f"{name}:9093", address)
        words.append(here)
    return words, outside


@pytest.mark.long
def test_the_services_of_the_compose_file_are_a_cluster(
    tmp_path: Path, zookeeper_chroot: str
) -> None:
    """Each service is a process with the command of its container; names are addresses here."""
    services = yaml.safe_load(compose_file().read_text())["services"]
    brokers = {name: each for name, each in services.items() if "command" in each}
    assert all(each["depends_on"] == ["zookeeper"] for each in brokers.values())
    inside = {name: f"127.0.0.1:{free_port()}" for name in brokers}
    outside = []
    with ExitStack() as stack:
        for name, each in brokers.items():
            folder = tmp_path / name
            folder.mkdir()
            # A container listens on all its addresses, of which there is one.
            names = {**inside, "0.0.0.0": inside[name]}
            words, address = local_command(each, zookeeper_chroot, folder, names)
            stack.enter_context(running([str(BIN / words[0]), *words[1:]], folder))
            outside.append(address)
        client = admin.AdminClient({"bootstrap.servers": outside[0]})
        until(lambda: len(brokers_at(outside[0])) == len(brokers), "all brokers")
        only_result(client.create_topics([admin.NewTopic("orders", 1)]))
        (part,) = client.list_topics("orders", timeout=10).topics["orders"].partitions.values()
        assert len(part.replicas) == len(brokers)
        producer = Producer({"bootstrap.servers": outside[-1], "acks": "all"})
        producer.produce("orders", b"one")
        assert producer.flush(30) == 0
