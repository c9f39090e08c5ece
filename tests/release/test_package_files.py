"""The files of the packages: all of them are in a wheel."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.documents import ROOT, document

NOT_PACKAGED = {".so", ".pyc"}
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def files_below(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix not in NOT_PACKAGED
        and not any(part.endswith(".egg-info") for part in path.parts)
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pure wheel of a copy of the source: builds leave files where they run."""
    tree, to = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info"))
    for name in NEEDED:
        shutil.copy(ROOT / name, tree)
    code = f"import setuptools.build_meta as build; build.build_wheel({str(to)!r})"
    environment = {**os.environ, "BARNABAS_PURE": "1"}
    built = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    (made,) = to.glob("*.whl")
    return made


def test_every_file_of_the_source_is_in_the_wheel(wheel: Path) -> None:
    packaged = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packaged == files_below(ROOT / "src")


def test_a_wheel_without_compiled_modules_is_for_every_platform(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_tools_of_a_release_are_locked_apart() -> None:
    groups = tomllib.loads(document("pyproject.toml"))["dependency-groups"]
    lock = document("requirements-release.lock")
    for requirement in groups["release"]:
        assert f"\n{requirement.partition('>=')[0]}==" in f"\n{lock}"
    assert "http" not in lock
