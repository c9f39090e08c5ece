"""Builds the compiled modules: every .pyx below src, and every .py that has a .pxd beside it.

None of them is needed: without a C compiler the same modules run as Python source, only slower.
"""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")
BUILD = Path("build")
# Types come from the `.pxd` and from what is assigned, not from annotations.
AS_SOURCE = {"annotation_typing": False, "infer_types": True}


def extensions(paths: list[Path], **directives: object) -> list[Extension]:
    named = [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-w"],  # of code that Cython wrote
        )
        for path in paths
    ]
    directives["language_level"] = 3
    built = cythonize(named, compiler_directives=directives, quiet=True, build_dir=str(BUILD))
    for extension in built:
        extension.optional = True
    return built


def forget_older_than(declarations: list[Path]) -> None:
    """Remove the C files that may have been made with older types: Cython does not notice all."""
    newest = max(path.stat().st_mtime for path in declarations)
    for path in BUILD.rglob("*.c"):
        if path.stat().st_mtime < newest:
            path.unlink()


forget_older_than(list(SOURCE.rglob("*.pxd")))
leaves = sorted(SOURCE.rglob("*.pyx"))
augmented = sorted({path.with_suffix(".py") for path in SOURCE.rglob("*.pxd")})
sources = [path for path in augmented if path.with_suffix(".pyx") not in leaves]
setup(ext_modules=extensions(leaves) + extensions(sources, **AS_SOURCE))
