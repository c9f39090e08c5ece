"""GitHub's workflows: they run targets of the Makefile, on the platforms that the package names."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.documents import ROOT, document

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return parsed


def commands(path: Path) -> list[str]:
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    return [step["run"] for step in steps if "run" in step]


def matrix() -> dict[str, list[str]]:
    ci: dict[str, list[str]] = jobs(ROOT / ".github/workflows/ci.yml")["test"]["strategy"]["matrix"]
    return ci


@each_workflow
def test_every_target_that_a_workflow_makes_exists(path: Path) -> None:
    targets = [word for line in commands(path) for word in re.findall(r"\bmake ([\w-]+)", line)]
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", document("Makefile"), re.MULTILINE), target


@each_workflow
def test_every_job_has_a_limit_and_pinned_actions(path: Path) -> None:
    for name, job in jobs(path).items():
        assert name == "publish" or job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert "uses" not in step or re.search(r"@[0-9a-f]{40}$", step["uses"]), step


def test_the_workflow_of_ci_runs_what_the_script_runs() -> None:
    run = re.findall(r"^make \S+", document(".ci/run"), re.MULTILINE)
    steps = jobs(ROOT / ".github/workflows/ci.yml")["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == run


@pytest.mark.skipif(
    shutil.which("actionlint") is None,
    reason="actionlint is not installed: go install github.com/rhysd/actionlint/cmd/actionlint",
)
def test_the_workflows_pass_actionlint() -> None:
    command = ["actionlint", "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@each_workflow
def test_a_workflow_runs_only_targets_of_the_makefile(path: Path) -> None:
    """One exception: the check that a tag is the version of the package."""
    own = [line for line in commands(path) if not line.startswith("grep -qx ")]
    assert all(re.fullmatch(r"make [\w-]+", line) for line in own), own


def test_the_release_refuses_a_tag_that_is_not_the_version() -> None:
    (check,) = (line for line in commands(WORKFLOWS[-1]) if line.startswith("grep -qx "))
    version = tomllib.loads(document("pyproject.toml"))["project"]["version"]
    for tag, code in ((f"v{version}", 0), (f"v{version}.1", 1), ("v9.9.9", 1)):
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        assert subprocess.run(["sh", "-c", check], cwd=ROOT, env=environment).returncode == code


def test_ci_has_every_python_and_system_that_the_package_names() -> None:
    classifiers = tomllib.loads(document("pyproject.toml"))["project"]["classifiers"]
    pythons = [each.rpartition(" ")[2] for each in classifiers if "Python :: 3." in each]
    assert matrix()["python"] == pythons
    assert {name.partition("-")[0] for name in matrix()["os"]} == {"ubuntu", "macos"}
