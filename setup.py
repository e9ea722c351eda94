"""Compile the kernels and the loop.

    python setup.py build_ext --inplace     for work in the tree; C files go to build/

The kernels are ordinary Python sources, typed by a `.pxd` beside them, and compiled by Cython. The
loop is what each message passes beside the kernels: modules as they are, compiled by mypyc into one
library, which `amqp_server.compiled_loop` loads.

`AMQP_SERVER_PURE_PYTHON=1` builds none. `AMQP_SERVER_REQUIRE_COMPILED=1` makes a failure
to compile an error; otherwise what is missing is interpreted, and the last line of the build says
so. An `-O` in `CFLAGS` replaces ours.
Everything else about the package is in pyproject.toml.
"""

import ast
import atexit
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, PlatformError
from setuptools.modified import newer_group

# Of setuptools, which offers them by these names.
from distutils.ccompiler import new_compiler  # isort: skip
from distutils.sysconfig import customize_compiler  # isort: skip

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
CHOSEN_LEVELS = re.findall(r"-O(\w*)", os.environ.get("CFLAGS", ""))
if not CHOSEN_LEVELS:
    # These come last: with `-O3` among them, whoever builds could not choose.
    COMPILE_FLAGS.append("-O3")

LOOP = (
    "amqp_server/access/grants.py",
    "amqp_server/base/time_slice.py",
    "amqp_server/broker/channel.py",
    "amqp_server/broker/consuming/consumer.py",
    "amqp_server/broker/consuming/consumer_rotation.py",
    "amqp_server/broker/consuming/delivery_timeouts.py",
    "amqp_server/broker/consuming/delivery_times.py",
    "amqp_server/broker/consuming/direct_reply.py",
    "amqp_server/broker/consuming/dispatch.py",
    "amqp_server/broker/consuming/requeueing.py",
    "amqp_server/broker/consuming/single_active_consumer.py",
    "amqp_server/broker/consuming/unacked.py",
    "amqp_server/broker/counters/broker_counters.py",
    "amqp_server/broker/counters/channel_counters.py",
    "amqp_server/broker/counters/consumer_waits.py",
    "amqp_server/broker/counters/delivery_counters.py",
    "amqp_server/broker/counters/delivery_pair.py",
    "amqp_server/broker/counters/publish_counters.py",
    "amqp_server/broker/counters/publish_pair.py",
    "amqp_server/broker/declaring/names.py",
    "amqp_server/broker/job.py",
    "amqp_server/broker/loading_messages.py",
    "amqp_server/broker/orders/byte_counted_order.py",
    "amqp_server/broker/orders/fifo_order.py",
    "amqp_server/broker/orders/offset_array.py",
    "amqp_server/broker/orders/priority_level.py",
    "amqp_server/broker/orders/priority_order.py",
    "amqp_server/broker/orders/ready_ranges.py",
    "amqp_server/broker/orders/stream_order.py",
    "amqp_server/broker/publishing/confirms.py",
    "amqp_server/broker/publishing/enqueue.py",
    "amqp_server/broker/publishing/publish_answers.py",
    "amqp_server/broker/publishing/publish_batch.py",
    "amqp_server/broker/publishing/publish_checks.py",
    "amqp_server/broker/publishing/publish_targets.py",
    "amqp_server/broker/publishing/publishing.py",
    "amqp_server/broker/queue.py",
    "amqp_server/broker/rights.py",
    "amqp_server/broker/rules/forced_removal.py",
    "amqp_server/broker/sorted_runs.py",
    "amqp_server/broker/storing/client_writes.py",
    "amqp_server/broker/storing/group_commit.py",
    "amqp_server/broker/storing/journal_requests.py",
    "amqp_server/broker/storing/log_window.py",
    "amqp_server/broker/storing/message_run.py",
    "amqp_server/broker/storing/message_store.py",
    "amqp_server/broker/storing/queues_to_checkpoint.py",
    "amqp_server/broker/storing/shared_windows.py",
    "amqp_server/broker/storing/spill_delay.py",
    "amqp_server/broker/storing/spilling.py",
    "amqp_server/broker/storing/storage.py",
    "amqp_server/broker/storing/window_reader.py",
    "amqp_server/broker/stream.py",
    "amqp_server/broker/subscriptions/groups.py",
    "amqp_server/broker/subscriptions/subscriptions.py",
    "amqp_server/broker/turn.py",
    "amqp_server/broker/turn_watch.py",
    "amqp_server/connections/handlers/basic.py",
    "amqp_server/connections/octet_counters.py",
    "amqp_server/connections/outbox.py",
    "amqp_server/connections/parked_publishes.py",
    "amqp_server/connections/reply_queue.py",
    "amqp_server/connections/session/client_session.py",
    "amqp_server/connections/session/session_channels.py",
    "amqp_server/connections/session/session_closing.py",
    "amqp_server/connections/session/session_input.py",
    "amqp_server/connections/session/session_methods.py",
    "amqp_server/control/command_channel.py",
    "amqp_server/operations/getting.py",
    "amqp_server/protocol/channel_machine.py",
    "amqp_server/protocol/connection_machine.py",
    "amqp_server/protocol/large_delivery.py",
    "appendlog/flushing/execution.py",
    "appendlog/flushing/flusher.py",
    "appendlog/flushing/worker_threads.py",
    "appendlog/flushing/write_order.py",
    "appendlog/layout/chunk.py",
    "appendlog/layout/summary.py",
    "appendlog/log.py",
    "appendlog/segments/append_clock.py",
    "appendlog/segments/durable_end.py",
    "appendlog/segments/read_result.py",
    "appendlog/segments/segment_list.py",
    "appendlog/segments/segment_write.py",
    "appendlog/segments/segment_writer.py",
    "offsets/bit_pages.py",
    "offsets/settlement.py",
    "ring/page_pool.py",
    "ring/ring.py",
)
"""Sources of the loop's modules. A class of them has no base and no subclass elsewhere."""
ROOMS = ("amqp_server", "appendlog", "metadata", "offsets", "ring")
LOOP_LIBRARY = "amqp_server.amqp_server_loop__mypyc"
LOOP_C_DIRECTORY = Path("build/mypyc")
LOOP_LEVEL = "1"
"""Of `-O`: the second level takes half as long again, for a gain of one or two percent."""
LOOP_FLAGS = ["-fvisibility=hidden", "-Wno-error"]
"""Its modules call each other, and nobody else does: without the names of a thousand functions it
is smaller, and such a call takes no detour. A compiler that warns of more than ours is no reason
to interpret the loop."""
LOOP_TYPES = ["--config-file=", "--ignore-missing-imports"]
"""Options of mypy: the libraries that it would take types from need not be there."""

IS_PURE = os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1"
IS_REQUIRED = os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1"
WITHOUT: list[str] = []
"""Why nothing can be compiled here; empty if it can."""


class Loop(Extension):
    """The library of the loop's modules."""

    def __init__(self) -> None:
        super().__init__(LOOP_LIBRARY, list(LOOP), optional=not IS_REQUIRED)


class Build(build):
    """Build the package, and say so if nothing of it is compiled."""

    def run(self) -> None:
        """Build; without extensions nobody else would run `build_ext`."""
        super().run()
        self.run_command("build_ext")


class BuildCompiled(build_ext):
    """Build what can be built, and say once what could not."""

    manifest: Path | None = None
    """What the loop's library was built from."""

    def run(self) -> None:
        """Build; without a working compiler all stays interpreted."""
        if WITHOUT:
            say_interpreted(*WITHOUT)
        wanted = [extension.name for extension in self.extensions]
        super().run()
        missing = [name for name in wanted if not Path(self.get_ext_fullpath(name)).exists()]
        if missing:
            say_interpreted(f"no compiler produced {', '.join(missing)}")
        if self.inplace and self.manifest is not None and self.manifest.exists():
            # Beside the library that was copied.
            self.copy_file(str(self.manifest), str(self._manifest_path()))

    def build_extension(self, extension: Extension) -> None:
        """Build one library, the loop's from C files that are written now."""
        if not isinstance(extension, Loop):
            super().build_extension(extension)
            return
        library = self.get_ext_fullpath(LOOP_LIBRARY)
        self.manifest = self._manifest_path()
        # Read before they are compiled: what is edited meanwhile makes the library out of date.
        wanted = manifest_of(sources_read(LOOP))
        is_same = self.manifest.exists() and self.manifest.read_text() == wanted
        if is_same and not self.force and not newer_group([__file__], library):
            return
        self.manifest.unlink(missing_ok=True)
        self._compile_loop(extension)
        super().build_extension(extension)
        self.manifest.write_text(wanted)

    def _manifest_path(self) -> Path:
        name = LOOP_LIBRARY.rpartition(".")[2]
        return Path(self.get_ext_fullpath(LOOP_LIBRARY)).with_name(f"{name}.json")

    def _compile_loop(self, extension: Extension) -> None:
        """Make object files of the C files of the loop, as many at a time as there are cores."""
        written = loop_in_c()
        headers = [str(path) for place in written.include_dirs for path in Path(place).glob("*.h")]

        def compiled(source: str) -> str:
            directory = Path(self.build_temp)
            built = directory / Path(source).with_suffix(".o")
            if not self.force and not newer_group([source, *headers], str(built)):
                return str(built)
            (path,) = self.compiler.compile(
                [source],
                output_dir=str(directory),
                include_dirs=written.include_dirs,
                extra_postargs=[*written.extra_compile_args, *LOOP_FLAGS],
            )
            return str(path)

        with ThreadPoolExecutor(os.cpu_count()) as compilers:
            extension.extra_objects = list(compilers.map(compiled, written.sources))
        extension.sources, extension.depends = [], extension.extra_objects


def loop_in_c() -> Extension:
    """Write the loop's modules in C, and return the library that they make.

    Raises:
        CompileError: mypy found a mistake.
    """
    from mypyc.build import mypycify

    try:
        library, *_modules = mypycify(
            [*LOOP_TYPES, *LOOP],
            opt_level=CHOSEN_LEVELS[-1] if CHOSEN_LEVELS else LOOP_LEVEL,
            debug_level="0",
            multi_file=True,
            target_dir=str(LOOP_C_DIRECTORY),
            group_name=LOOP_LIBRARY.rpartition(".")[2].removesuffix("__mypyc"),
        )
    except SystemExit as error:
        raise CompileError(f"mypyc cannot compile the loop: {error}") from error
    return library


def sources_read(paths: Iterable[str]) -> list[Path]:
    """Return the paths and all modules of ours that they import, for types only or not.

    Constants and the types of names are compiled in, from modules that are not compiled as well.
    """
    found = {Path(path) for path in paths}
    following = list(found)
    while following:
        for path in imported_by(following.pop()):
            if path not in found:
                found.add(path)
                following.append(path)
    return sorted(found)


def imported_by(path: Path) -> Iterator[Path]:
    """Generate the modules of ours that a module imports anywhere in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    for name in names:
        place = Path(*name.split("."))
        if place.parts[0] in ROOMS:
            sources = place.with_suffix(".py"), place / "__init__.py"
            yield from (source for source in sources if source.exists())


def manifest_of(sources: Iterable[Path]) -> str:
    """Return what `amqp_server.compiled_loop` reads: the library's modules, and its sources."""
    manifest = {
        "modules": [path.removesuffix(".py").replace("/", ".") for path in LOOP],
        "sources": {
            path.as_posix(): blake2b(path.read_bytes(), digest_size=16).hexdigest()
            for path in sources
        },
    }
    return json.dumps(manifest, indent=0)


def say_interpreted(reason: str) -> None:
    """Say that something will be interpreted, and why, when all else is said."""
    atexit.register(
        print,
        f"amqp-server: all of it works, and it is slower: what is not compiled is interpreted "
        f"({reason})",
        file=sys.stderr,
    )


def has_compiler() -> bool:
    """Tell whether what includes Python's headers compiles: it takes minutes to write it in C."""
    compiler = new_compiler()
    customize_compiler(compiler)
    headers = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    with TemporaryDirectory() as directory:
        source = Path(directory, "headers.c")
        source.write_text("#include <Python.h>\n")
        try:
            compiler.compile([str(source)], output_dir=directory, include_dirs=sorted(headers))
        except (CompileError, PlatformError):
            return False
    return True


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


def compiled() -> list[Extension]:
    """Return the extensions to build: the kernels are translated to C under build/."""
    sources = {name: source for name, source in KERNELS.items() if is_typed(name, source)}
    if IS_PURE or not sources:
        return []
    try:
        import mypyc  # noqa: F401 - asked for only
        from Cython.Build import cythonize
    except ImportError as error:
        if IS_REQUIRED:
            raise
        WITHOUT.append(str(error))
        return []
    if not IS_REQUIRED and not has_compiler():
        WITHOUT.append("there is no C compiler, or it has no headers of Python")
        return []
    for source in sources.values():
        remove_outdated(source)
    kernels = cythonize(
        [
            Extension(name, [source], extra_compile_args=COMPILE_FLAGS)
            for name, source in sources.items()
        ],
        build_dir=str(C_DIRECTORY),
        compiler_directives=DIRECTIVES,
        quiet=True,
    )
    extensions = [Loop(), *kernels]
    for extension in extensions:
        extension.optional = not IS_REQUIRED  # cythonize drops it
    return extensions


setup(ext_modules=compiled(), cmdclass={"build": Build, "build_ext": BuildCompiled})
