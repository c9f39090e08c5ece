"""The files of a project of Spark Declarative Pipelines: created, found and parsed."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.spark.project.project_template import files

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_REQUIRED: Final = ("name", "storage")


class Project(NamedTuple):
    """A project on this machine: its parsed spec, and the path of the spec."""

    spec_file: Path
    name: str
    storage: str
    configuration: dict[str, str]
    transformations: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        return self.spec_file.parent


def create(folder: Path, source: str, target: str | None, bootstrap: str) -> list[Path]:
    """Create a project in a new directory, whose name is the project's.

    Raises  Misused if the name is invalid; CommandFailed if the directory exists
    """
    name = folder.name
    if not _NAME.fullmatch(name):
        raise Misused(
            f"{name} is not a valid project name: use letters, digits, _ and -; start with a letter"
        )
    if folder.exists():
        raise CommandFailed(f"{folder} already exists; name another directory, or remove it")
    storage = (folder / "storage").absolute().as_uri()
    written = []
    for path, text in files(name, source, target or f"{name}-revenue", storage, bootstrap).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        written.append(file)
    (folder / "storage").mkdir()
    return written


def find(place: Path) -> Project:
    """The project in a directory, or with this spec file.

    Raises  CommandFailed if there is none, or if its spec is invalid
    """
    if place.is_file():
        return _read(place)
    for name in SPEC_NAMES:
        if (place / name).is_file():
            return _read(place / name)
    raise CommandFailed(
        f"{place} is not a project: it has no {SPEC_NAMES[0]}; create one with"
        " `barnabas pipeline init NAME`"
    )


def find_all(folder: Path) -> Iterator[Project | CommandFailed]:
    """The projects in the directory and its subdirectories; the error of each invalid one."""
    for each in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if any((each / name).is_file() for name in SPEC_NAMES):
            try:
                yield find(each)
            except CommandFailed as failure:
                yield failure


def _read(file: Path) -> Project:
    yaml: Any = import_module("yaml")
    try:
        spec: Any = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandFailed(f"{file}: {' '.join(str(error).split())}") from None
    if not isinstance(spec, dict):
        raise CommandFailed(f"{file}: expected `name: ...`, `storage: ...`, `libraries: ...`")
    for key in _REQUIRED:
        if not isinstance(spec.get(key), str):
            raise CommandFailed(f"{file}: `{key}` is missing or not a string")
    configuration = spec.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise CommandFailed(f"{file}: `configuration` must be a mapping")
    settings = {str(key): str(value) for key, value in configuration.items()}
    return Project(file, spec["name"], spec["storage"], settings, tuple(_sources(file, spec)))


def _sources(file: Path, spec: dict[str, Any]) -> Iterator[Path]:
    """The files that match the globs of the spec."""
    try:
        patterns = [each["glob"]["include"] for each in spec.get("libraries") or ()]
    except (KeyError, TypeError):
        raise CommandFailed(
            f"{file}: each of `libraries` must be `glob: {{include: PATTERN}}`"
        ) from None
    for pattern in patterns:
        wider = f"{pattern}/*" if pattern.endswith("/**") else pattern
        yield from sorted(p for p in file.parent.glob(wider) if p.suffix in (".py", ".sql"))
