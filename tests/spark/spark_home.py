"""Spark's installation as seen from a test's folder: what Spark writes into it goes there."""

from pathlib import Path

import pyspark


def spark_home(folder: Path) -> Path:
    """A folder to be SPARK_HOME: executors of a local cluster keep their files in it."""
    home = folder / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home
