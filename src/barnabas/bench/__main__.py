"""The same as `barnabas bench`, where only the package is at hand: `python -m barnabas.bench`."""

import typer

from barnabas.bench.command import bench

if __name__ == "__main__":
    typer.run(bench)
