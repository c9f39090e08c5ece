"""`python -m barnabas.bench`: the same as `barnabas bench`."""

from barnabas.bench.bench_command import app

if __name__ == "__main__":
    app()
