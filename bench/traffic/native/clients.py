"""The native clients: what each needs, and how its program is built and started."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bench.errors import BenchError

ROOT_VARIABLE: Final = "BENCH_NATIVE_ROOT"
"""Environment variable: directory with Debian packages that `dpkg -x` has unpacked."""

_HERE: Final = Path(__file__).parent
_REPOSITORY: Final = _HERE.parents[2]
_NODE_MODULES: Final = _REPOSITORY / "tests" / "interop" / "node" / "node_modules"
_JARS: Final = ("amqp-client.jar", "slf4j-api.jar")
_BUILD_SECONDS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Program:
    """A client that is ready to start.

    Attributes:
        command: Program and first arguments.
        environment: Environment variables that it needs beside those of this process.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NativeClient:
    """A client library of another project.

    Attributes:
        name: Name of the library.
        waits: How it handles confirms.
        try_missing: Returns what has to be installed; "" for nothing.
        build: Builds the program into an empty directory.
    """

    name: str
    waits: str
    try_missing: Callable[[], str]
    build: Callable[[Path], Program]


def _root() -> Path:
    return Path(os.environ.get(ROOT_VARIABLE, "/"))


def _find_go() -> str | None:
    unpacked = sorted(_root().glob("usr/lib/go-*/bin/go"))
    return str(unpacked[-1]) if unpacked else shutil.which("go")


def _missing(what: Mapping[str, object], packages: str) -> str:
    """Return the names of the things that are not there, with the packages that bring them."""
    absent = [name for name, found in what.items() if not found]
    return f"{', '.join(absent)} not found; {packages}" if absent else ""


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> None:
    try:
        subprocess.run(
            command,
            env=os.environ | (environment or {}),
            capture_output=True,
            text=True,
            check=True,
            timeout=_BUILD_SECONDS_MAX,
        )
    except subprocess.CalledProcessError as error:
        raise BenchError(f"{command[0]} failed: {error.stderr.strip()}") from error


def _build_go(directory: Path) -> Program:
    go = _find_go()
    assert go is not None, "the row is measured only if Go is installed"
    program = directory / "amqp091_client"
    environment = {
        "GO111MODULE": "off",  # Debian's sources are a GOPATH
        "GOPATH": str(_root() / "usr" / "share" / "gocode"),
        "GOCACHE": str(directory / "cache"),
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
    }
    if go != shutil.which("go"):
        environment["GOROOT"] = str(_unpacked_go_root(Path(go), directory))
    _run([go, "build", "-o", str(program), str(_HERE / "amqp091_client.go")], environment)
    return Program((str(program),), {})


def _unpacked_go_root(go: Path, directory: Path) -> Path:
    """Return Go's directory with links to its sources, which the packages keep elsewhere."""
    root = directory / "go"
    root.mkdir()
    for part in go.parents[1].iterdir():
        if not part.is_symlink():
            (root / part.name).symlink_to(part)
    shared = _root() / "usr" / "share" / go.parents[1].name
    for part in shared.iterdir():
        if not (root / part.name).exists():
            (root / part.name).symlink_to(part)
    return root


def _missing_go() -> str:
    sources = _root() / "usr/share/gocode/src/github.com/rabbitmq/amqp091-go"
    return _missing(
        {"go": _find_go(), "amqp091-go": sources.is_dir()},
        "Debian: golang-go golang-github-rabbitmq-amqp091-go-dev",
    )


def _build_java(directory: Path) -> Program:
    jars = [str(_root() / "usr/share/java" / name) for name in _JARS]
    path = ":".join([str(directory), *jars])
    _run(["javac", "-cp", path, "-d", str(directory), str(_HERE / "RabbitClient.java")])
    return Program(("java", "-cp", path, "RabbitClient"), {})


def _missing_java() -> str:
    jars = {name: (_root() / "usr/share/java" / name).exists() for name in _JARS}
    return _missing(
        {"javac": shutil.which("javac"), **jars},
        "Debian: default-jdk-headless librabbitmq-client-java",
    )


def _build_c(directory: Path) -> Program:
    program = directory / "librabbitmq_client"
    include = ["-I", str(_root() / "usr" / "include")] if _root() != Path("/") else []
    source = str(_HERE / "librabbitmq_client.c")
    _run(["gcc", "-O2", "-Wall", *include, source, "-o", str(program), "-l:librabbitmq.so.4"])
    return Program((str(program),), {})


def _missing_c() -> str:
    header = (_root() / "usr/include/amqp.h").exists()
    return _missing(
        {"gcc": shutil.which("gcc"), "amqp.h": header}, "Debian: gcc librabbitmq-dev librabbitmq4"
    )


def _build_node(_directory: Path) -> Program:
    command = ("node", str(_HERE / "amqplib_client.js"))
    return Program(command, {"NODE_PATH": str(_NODE_MODULES)})


def _missing_node() -> str:
    amqplib = (_NODE_MODULES / "amqplib").is_dir()
    return _missing(
        {"node": shutil.which("node"), "amqplib": amqplib},
        "Debian: nodejs (20.15 or newer), then `make node`, which gets amqplib from npm",
    )


def _build_python(module: str) -> Callable[[Path], Program]:
    command = (sys.executable, "-m", f"bench.traffic.native.{module}")
    return lambda _directory: Program(command, {"PYTHONPATH": str(_REPOSITORY)})


def _missing_python(module: str, package: str) -> Callable[[], str]:
    return lambda: _missing({module: find_spec(module)}, f"pip install {package}")


_WINDOW_TEXT: Final = "window 200"

CLIENTS: Final = (
    NativeClient("amqp091-go", _WINDOW_TEXT, _missing_go, _build_go),
    NativeClient("java", _WINDOW_TEXT, _missing_java, _build_java),
    NativeClient("librabbitmq", _WINDOW_TEXT, _missing_c, _build_c),
    NativeClient("amqplib", _WINDOW_TEXT, _missing_node, _build_node),
    NativeClient(
        "aio-pika",
        _WINDOW_TEXT,
        _missing_python("aio_pika", "aio-pika"),
        _build_python("aio_pika_client"),
    ),
    NativeClient(
        "pika", "waits for each", _missing_python("pika", "pika"), _build_python("pika_client")
    ),
)
"""All native clients, in the order of their rows."""
