"""This program: its version, Python, and what of it is compiled. The format of the data."""

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import amqp_server
from amqp_server.compiled_loop import loop
from amqp_server.protocol import framing
from appendlog.layout import records
from cli.doctor.finding import Finding, error, ok, warning
from metadata.data_format import FORMAT_VERSION, DataFormat, read_format
from metadata.errors import MetadataError

_LIBRARIES: Final = ("uvloop", "orjson", "click")
PROGRAM: Final = "program"
FORMAT: Final = "data format"


def check_program() -> Iterator[Finding]:
    """Yield whether the program is whole and compiled."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    about = f"amqp-server {amqp_server.__version__}, {python}, {_libraries()}"
    parts = []
    if not loop.is_used:
        parts.append(f"loop ({loop.reason})" if loop.reason else "loop")
    parts += [
        name
        for name, is_compiled in (("framing", framing.COMPILED), ("records", records.COMPILED))
        if not is_compiled
    ]
    if not parts:
        yield ok(PROGRAM, f"{about}, compiled")
    elif os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        yield warning(
            PROGRAM,
            f"{about}, interpreted, as AMQP_SERVER_PURE_PYTHON=1 says",
            "unset the variable: compiled, a message takes a fifth of the processor",
        )
    else:
        yield warning(
            PROGRAM,
            f"{about}, not compiled: {', '.join(parts)}",
            "install a wheel, or a C compiler and then the package again",
        )
    if sys.version_info.releaselevel != "final":
        yield warning(
            PROGRAM,
            f"this Python is a {sys.version_info.releaselevel}",
            "use one that is released",
        )


def check_data_format(storage_path: Path) -> Iterator[Finding]:
    """Yield whether this program reads the data of a directory; nothing if there is none."""
    try:
        found = read_format(storage_path)
    except FileNotFoundError:
        return
    except MetadataError as problem:
        yield error(FORMAT, str(problem), "run the version of the program that wrote it")
    except OSError as problem:
        yield error(FORMAT, f"cannot be read: {problem}", "run as the user who owns the data")
    else:
        if found is DataFormat.CURRENT:
            yield ok(FORMAT, f"version {FORMAT_VERSION}, which this program writes")
        else:
            yield warning(
                FORMAT,
                "of an earlier version: the next start upgrades it, and there is no way back",
                "make a back-up first (amqp-server backup)",
            )


def _libraries() -> str:
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} of unknown version")
    return ", ".join(found)
