"""Compiles the kernel of the generator into the repository's `build/`, which git ignores.

The kernel is no part of the installed package, so `setup.py` does not build it.
"""

import fcntl
import hashlib
import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from bench.errors import BenchError

_HERE: Final = Path(__file__).parent
_REPOSITORY: Final = _HERE.parent.parent
_SOURCES: Final = (_HERE / "_frames_py.py", _HERE / "_frames_c.pxd")
_MODULE: Final = "bench.traffic._frames_c"
_DIRECTIVES: Final = {
    "language_level": 3,
    "annotation_typing": False,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
}


def compiled_file() -> Path:
    """Return the place of the compiled kernel of these sources and this interpreter."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES)).hexdigest()[:16]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return _REPOSITORY / "build" / "bench" / digest / f"_frames_c{suffix}"


def compile_kernel() -> None:
    """Compile the kernel, unless that has been done.

    Raises:
        BenchError: Cython or a C compiler is missing, or the compilation failed.
    """
    target = compiled_file()
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        (target.parent / "lock").open("w") as lock,
        tempfile.TemporaryDirectory(dir=target.parent) as directory,
    ):
        # Processes that start at the same time wait for the first one: it takes seconds of CPU.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return
        try:
            built = _build(Path(directory))
        except (Exception, SystemExit) as error:
            raise BenchError(f"the generator's kernel cannot be compiled: {error}") from error
        built.replace(target)  # in one step: others may look for it at the same time


def _build(directory: Path) -> Path:
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension  # type: ignore[import-untyped]
    from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]

    before = Path.cwd()
    os.chdir(_REPOSITORY)  # Cython finds the types by the module's place below it
    try:
        extensions = cythonize(  # type: ignore[no-untyped-call]
            [Extension(_MODULE, [str(_SOURCES[0].relative_to(_REPOSITORY))])],
            build_dir=str(directory),
            compiler_directives=_DIRECTIVES,
            quiet=True,
        )
        command = build_ext(Distribution({"ext_modules": extensions}))
        command.build_lib = command.build_temp = str(directory)
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return directory / Path(*_MODULE.split(".")).with_name(
        f"_frames_c{sysconfig.get_config_var('EXT_SUFFIX')}"
    )


if __name__ == "__main__":
    try:
        compile_kernel()
    except BenchError as error:
        sys.exit(str(error))
