"""Rolling upgrades from earlier releases, and back: no client sees an error or misses a record.

An earlier release is built from the last commit that the changelog calls by its version. This one
is the compiled wheel of `make dist` under `make dist-test`, and otherwise a wheel of this tree.
Each is installed into an environment of its own, as an operator does.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from barnabas.znodes.zookeeper.zookeeper_server import ZooKeeperServer
from tests.cluster.operations import create
from tests.support.application import PARTITIONS, Application
from tests.support.cluster import Cluster
from tests.support.documents import ROOT

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(1800)]

# The commit of each release.
RELEASES: Final = {
    "0.1.0": "c4c004425e72329aa30029c32c4d74082e36f8e7",
    "0.2.0": "7b348c450d49eabe477ce0e372e374b2e3045e5e",
}
# Both as Python source: a build of the compiled modules takes minutes.
WITHOUT_COMPILER: Final = {"CC": "/nonexistent/cc", "BARNABAS_PURE": "1"}


def run(*command: str | Path, cwd: Path = ROOT) -> bytes:
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **WITHOUT_COMPILER},
        capture_output=True,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr).decode()[-3000:]
    return ran.stdout


def wheel_of(source: Path) -> Path:
    """A wheel of a copy of a tree: a build leaves files where it runs."""
    wheels = source.with_name("wheels")
    build = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    run(sys.executable, "-m", "pip", *build, source)
    (wheel,) = wheels.glob("barnabas-*.whl")
    return wheel


def environment(folder: Path, wheel: Path) -> str:
    """The interpreter of a new environment that has this wheel."""
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    return str(python)


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an earlier release; BARNABAS_RELEASES has environments made before."""
    commit = RELEASES[request.param]
    if given := os.environ.get("BARNABAS_RELEASES"):
        return str(Path(given) / request.param / "bin" / "python")
    if (
        not (ROOT / ".git").exists()
        or run("git", "rev-parse", "--is-shallow-repository") != b"false\n"
    ):
        pytest.skip("the history is not here, or not all of it: git fetch --unshallow")
    folder = tmp_path_factory.mktemp(request.param)
    source = folder / "source"
    source.mkdir()
    run("git", "archive", "--output", folder / "source.tar", commit)
    run("tar", "-xf", folder / "source.tar", "-C", source)
    return environment(folder, wheel_of(source))


@pytest.fixture(scope="module")
def this_release(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of the release that is upgraded to."""
    folder = tmp_path_factory.mktemp("this_release")
    if given := os.environ.get("BARNABAS_DIST"):
        (wheel,) = Path(given).glob("barnabas-*-cp*.whl")
        return environment(folder, wheel)
    source = folder / "source"
    leftovers = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", source / "src", ignore=leftovers)
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return environment(folder, wheel_of(source))


@pytest.fixture
def cluster(release: str, zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers of the earlier release."""
    overrides = ("controlled.shutdown.retry.backoff.ms=300", "default.replication.factor=3")
    made = Cluster(tmp_path, f"{zookeeper.address}/upgrade", 3, overrides)
    for broker in made.brokers.values():
        broker.python = release
    try:
        with made:
            yield made
    finally:
        print(made.logs())


def roll(cluster: Cluster, application: Application, python: str) -> None:
    """Restart one broker after the other with the release of `python`."""
    for broker in cluster.brokers.values():
        application.wait_for_progress()
        broker.stop()
        broker.python = python
        application.wait_for_progress()
        broker.start()
        cluster.wait_settled(120)
    application.wait_for_progress()


def test_in_a_rolling_upgrade_and_back_no_request_fails_and_nothing_is_lost(
    cluster: Cluster, release: str, this_release: str
) -> None:
    cluster.wait_settled()
    create(cluster, "orders", PARTITIONS, configs={"min.insync.replicas": "2"})
    cluster.wait_settled()
    application = Application(cluster.bootstrap, "orders")
    application.start()
    try:
        roll(cluster, application, this_release)
        roll(cluster, application, release)
    finally:
        application.stop()
    application.check()
    print(f"{application.delivered} records went through six restarts")
