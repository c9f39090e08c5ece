"""Builds the compiled modules: every .pyx below src, and every .py that has a .pxd beside it.

None of them is needed: without a C compiler the same modules run as Python source, only slower. But
they need each other: see `AllOrNone`. BARNABAS_PURE=1 builds none of them: the wheel then runs
anywhere.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, CompileError

SOURCE = Path("src")
BUILD = Path("build")
# Types come from the `.pxd` and from what is assigned, not from annotations.
AS_SOURCE = {"annotation_typing": False, "infer_types": True}


def extensions(paths: list[Path], **directives: object) -> list[Extension]:
    named = [
        Extension(
            ".".join(path.relative_to(SOURCE).with_suffix("").parts),
            [str(path)],
            extra_compile_args=[
                "-w",
                "-g0",
            ],  # code that Cython wrote
        )
        for path in paths
    ]
    directives["language_level"] = 3
    return cythonize(named, compiler_directives=directives, quiet=True, build_dir=str(BUILD))


class AllOrNone(build_ext):
    """Leaves no extension behind if one cannot be built, nor those of an earlier build.

    They use each other's C types: one whose neighbour is missing, or older, cannot be imported.
    """

    unbuilt: Sequence[Extension] = ()

    def build_extensions(self) -> None:
        try:
            super().build_extensions()
        except (BaseError, CCompilerError, CompileError) as error:
            self.warn(f"no module is compiled, all run as Python source: {error}")
            self.unbuilt, self.extensions = self.extensions, []
            self._remove(Path(self.build_lib))

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        self._remove(SOURCE)

    def _remove(self, folder: Path) -> None:
        for extension in self.unbuilt:
            (folder / self.get_ext_filename(extension.name)).unlink(missing_ok=True)


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
pure = os.environ.get("BARNABAS_PURE", "0") not in ("", "0")
setup(
    ext_modules=[] if pure else extensions(leaves) + extensions(sources, **AS_SOURCE),
    cmdclass={"build_ext": AllOrNone},
)
