"""The same as `barnabas bench`, where only the package is at hand: `python -m barnabas.bench`."""

from barnabas.bench.bench_command import app

if __name__ == "__main__":
    app()
