"""Compile the kernels: ordinary Python sources, typed by a `.pxd` beside them.

    python setup.py build_ext --inplace     for work in the tree; C files go to build/

`AMQP_SERVER_PURE_PYTHON=1` builds none. `AMQP_SERVER_REQUIRE_COMPILED=1` makes a failure
to compile an error; otherwise it is one warning and the interpreted kernels are used. An `-O` in
`CFLAGS` replaces ours.
Everything else about the package is in pyproject.toml.
"""

import os
import sys
import warnings
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = {
    "amqp_server.broker.routing._known_routes_c": "amqp_server/broker/routing/_known_routes_py.py",
    "amqp_server.protocol._body_sizes_c": "amqp_server/protocol/_body_sizes_py.py",
    "amqp_server.protocol._events_c": "amqp_server/protocol/_events_py.py",
    "amqp_server.protocol._filtering_c": "amqp_server/protocol/_filtering_py.py",
    "amqp_server.protocol._headers_c": "amqp_server/protocol/_headers_py.py",
    "amqp_server.protocol._scanning_c": "amqp_server/protocol/_scanning_py.py",
    "amqp_server.protocol._writing_c": "amqp_server/protocol/_writing_py.py",
    "appendlog.layout._columns_c": "appendlog/layout/_columns_py.py",
    "appendlog.layout._encoding_c": "appendlog/layout/_encoding_py.py",
    "appendlog.layout._json_c": "appendlog/layout/_json_py.py",
    "appendlog.layout._tables_c": "appendlog/layout/_tables_py.py",
    "appendlog.layout._walking_c": "appendlog/layout/_walking_py.py",
    "ring._sizes_c": "ring/_sizes_py.py",
}
if sys.platform == "linux":
    # Threads that need no interpreter: Cython's own language, and their system calls are Linux'.
    KERNELS["appendlog.files._bulk_reads_c"] = "appendlog/files/_bulk_reads_c.pyx"
    KERNELS["appendlog.recovery._log_images_c"] = "appendlog/recovery/_log_images_c.pyx"
    KERNELS["appendlog.flushing._write_threads_c"] = "appendlog/flushing/_write_threads_c.pyx"
DIRECTIVES = {
    "language_level": 3,
    # Annotations are for mypy: `int` in them is Python's, while the .pxd says C's.
    "annotation_typing": False,
    "boundscheck": False,  # the kernels prove lengths before they read
    "wraparound": False,
    "cdivision": True,
    "embedsignature": False,
}
C_DIRECTORY = Path("build/cython")
COMPILE_FLAGS = ["-g0", "-Wall", "-Wextra", "-Wsign-compare", "-Wno-unused-parameter"]
if "-O" not in os.environ.get("CFLAGS", ""):
    # These come last: with `-O3` among them, whoever builds could not choose.
    COMPILE_FLAGS.append("-O3")

IS_PURE = os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1"
IS_REQUIRED = os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1"


class BuildKernels(build_ext):
    """Build what can be built, and say once what could not."""

    def run(self) -> None:
        """Build; without a working compiler the kernels stay interpreted."""
        wanted = [extension.name for extension in self.extensions]
        super().run()
        missing = [name for name in wanted if not Path(self.get_ext_fullpath(name)).exists()]
        if missing:
            warn_interpreted(f"no compiler produced {', '.join(missing)}")


def warn_interpreted(reason: str) -> None:
    """Say that kernels will be interpreted, and why."""
    warnings.warn(
        f"kernels will be interpreted, several times slower than compiled: {reason}",
        stacklevel=2,
    )


def is_typed(name: str, source: str) -> bool:
    """Tell whether a kernel's source is there, and its types, unless they are in the source."""
    if source.endswith(".pyx"):
        return Path(source).exists()
    types = Path(source).with_name(f"{name.rpartition('.')[2]}.pxd")
    return Path(source).exists() and types.exists()


def remove_outdated(source: str) -> None:
    """Remove a kernel's C file if types beside its source have changed since it was written.

    Cython looks for a `.pxd` with the name of the source, so it would not translate it again. One
    kernel may use the types of another, whose layout must be the same in both.
    """
    translated = C_DIRECTORY / Path(source).with_suffix(".c")
    types = [path.stat().st_mtime for path in Path(source).parent.glob("*.pxd")]
    if translated.exists() and translated.stat().st_mtime < max(types, default=0):
        translated.unlink()


def kernels() -> list[Extension]:
    """Return the extensions to build, translated to C under build/."""
    sources = {name: source for name, source in KERNELS.items() if is_typed(name, source)}
    if IS_PURE or not sources:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        if IS_REQUIRED:
            raise
        warn_interpreted(str(error))
        return []
    for source in sources.values():
        remove_outdated(source)
    extensions = cythonize(
        [
            Extension(name, [source], extra_compile_args=COMPILE_FLAGS)
            for name, source in sources.items()
        ],
        build_dir=str(C_DIRECTORY),
        compiler_directives=DIRECTIVES,
        quiet=True,
    )
    for extension in extensions:
        extension.optional = not IS_REQUIRED  # cythonize drops it
    return list(extensions)


setup(ext_modules=kernels(), cmdclass={"build_ext": BuildKernels})
