"""Builds the compiled twins of the hot functions: every .pyx below src, each beside its module.

None of them is needed: what has a twin falls back to it, so that a machine without a C compiler
gets the same broker, only slower.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")


def compiled_twins() -> list[Extension]:
    paths = sorted(SOURCE.rglob("*.pyx"))
    twins = [
        Extension(".".join(path.relative_to(SOURCE).with_suffix("").parts), [str(path)])
        for path in paths
    ]
    built = cythonize(twins, language_level=3, quiet=True, build_dir="build") if twins else []
    for twin in built:
        twin.optional = True
    return built


setup(ext_modules=compiled_twins())
