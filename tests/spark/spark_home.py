"""A SPARK_HOME for tests: Spark's installation, with a writable work directory."""

from pathlib import Path

import pyspark


def spark_home(folder: Path) -> Path:
    """A directory to use as SPARK_HOME: executors of a local cluster write their files there."""
    home = folder / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home
