"""The build of the compiled modules: all of them, or none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = """
[project]
name = "house"
version = "1"
[tool.setuptools.packages.find]
where = ["src"]
"""
# One module uses the C type of the other.
SOURCES = {
    "pyproject.toml": PROJECT,
    "src/house/__init__.py": "",
    "src/house/one.py": "class Room:\n    pass\n",
    "src/house/one.pxd": "cdef class Room:\n    cdef public int size\n",
    "src/house/two.py": "from house.one import Room\n\n\nclass Hall(Room):\n    pass\n",
    "src/house/two.pxd": "from house.one cimport Room\n\n\ncdef class Hall(Room):\n    pass\n",
}
# A compiler that cannot compile one of the files whose name this is.
BROKEN_CC = '#!/bin/sh\ncase "$*" in *{name}.c*) exit 1;; esac\nexec cc "$@"\n'


@pytest.fixture(scope="module")
def built_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose modules are compiled."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    house = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "setup.py", house)
    for path, text in SOURCES.items():
        (house / path).parent.mkdir(parents=True, exist_ok=True)
        (house / path).write_text(text)
    built = build(house)
    assert (built.returncode, compiled(house)) == (0, ["one", "two"]), built.stderr
    return house


def build(house: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace", "--force"],
        cwd=house,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def compiled(house: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in house.joinpath("src").rglob("*.so"))


def loaded(house: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import house.two; print(house.two.Hall().__class__.__name__)"]
    environment = {**os.environ, "PYTHONPATH": str(house / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["one", "two"])
def test_where_one_module_cannot_be_compiled_all_run_as_source(
    built_house: Path, tmp_path: Path, name: str
) -> None:
    house = Path(shutil.copytree(built_house, tmp_path / "house"))
    cc = house / "broken-cc"
    cc.write_text(BROKEN_CC.format(name=name))
    cc.chmod(0o755)
    built = build(house, CC=str(cc))
    assert (built.returncode, compiled(house)) == (0, []), built.stderr
    assert "run as Python source" in built.stderr
    ended = loaded(house)
    assert (ended.returncode, ended.stdout.strip()) == (0, "Hall"), ended.stderr
    assert not list(house.joinpath("build").rglob("*.so")), "a wheel would have them"
