"""The compiled build of the loop: servers run it, unless a source has changed or it is declined."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

ROOMS = ("amqp_server", "appendlog", "cli", "metadata", "offsets", "ring")
LIBRARY = REPOSITORY / "amqp_server" / f"amqp_server_loop__mypyc{EXTENSION_SUFFIXES[0]}"
REQUIRED = {"AMQP_SERVER_REQUIRE_COMPILED": "1"}

needs_library = pytest.mark.skipif(
    not LIBRARY.exists() and os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") != "1",
    reason="the loop is not built",
)
pytestmark = needs_library


def python(
    *arguments: str, home: Path = REPOSITORY, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run Python with the packages in a folder; return the exit code and what it printed."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("AMQP_SERVER_")}
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=home.parent,
        env={**inherited, "PYTHONPATH": str(home), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def version(
    home: Path = REPOSITORY, environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Return the exit code of `amqp-server --version` and its line."""
    return python("-m", "amqp_server", "--version", home=home, environment=environment)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the packages, with what is compiled, to a folder in which a test may edit them."""
    home = tmp_path_factory.mktemp("copy") / "packages"
    for room in ROOMS:
        ignored = shutil.ignore_patterns("__pycache__", "page")
        shutil.copytree(REPOSITORY / room, home / room, ignore=ignored)
    return home


def test_a_server_has_every_module_of_the_library() -> None:
    code = """
import json, sys
from amqp_server.compiled_loop import loop
loop.use()
import amqp_server.server_process
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()}))
"""
    exit_code, printed = python("-c", code, environment=REQUIRED)
    files: dict[str, str | None] = json.loads(printed)
    manifest = json.loads((LIBRARY.parent / "amqp_server_loop__mypyc.json").read_bytes())

    assert exit_code == 0
    assert len(manifest["modules"]) > 80
    for name in manifest["modules"]:
        assert (files[name] or "").endswith(EXTENSION_SUFFIXES[0]), name


def test_the_loop_is_compiled_unless_pure_python_is_asked_for() -> None:
    assert "; loop: compiled, framing: compiled, " in version()[1]
    pure = version(environment={"AMQP_SERVER_PURE_PYTHON": "1"})[1]
    assert "; loop: interpreted because of AMQP_SERVER_PURE_PYTHON=1, framing: interp" in pure


def test_an_edited_source_runs_and_is_named(copy: Path) -> None:
    assert "loop: compiled" in version(copy)[1]
    edited = copy / "amqp_server" / "broker" / "turn.py"
    source = edited.read_text()
    try:
        edited.write_text(source + "\nprint('edited')\n")
        assert python("-m", "amqp_server.broker.turn", home=copy) == (0, "edited\n")
        changed = "amqp_server/broker/turn.py has changed since the build"
        assert f"loop: interpreted because {changed}, " in version(copy)[1]
        exit_code, line = version(copy, REQUIRED)
        assert exit_code == 2
        assert line == f"amqp-server: error: the compiled loop cannot be used: {changed}\n"
    finally:
        edited.write_text(source)
    assert "loop: compiled" in version(copy)[1]


def test_a_source_whose_constants_are_compiled_in_counts_too(copy: Path) -> None:
    edited = copy / "amqp_server" / "protocol" / "constants.py"
    source = edited.read_text()
    try:
        edited.write_text(source + "\n")
        assert "because amqp_server/protocol/constants.py has changed" in version(copy)[1]
        edited.unlink()
        assert (
            "amqp_server/protocol/constants.py has changed"
            in python(
                "-c",
                "from amqp_server.compiled_loop import loop; loop.use(); print(loop.reason)",
                home=copy,
            )[1]
        )
    finally:
        edited.write_text(source)


@pytest.mark.parametrize(
    ("name", "octets", "reason"),
    [
        (LIBRARY.name, None, "it is not built"),
        ("amqp_server_loop__mypyc.json", None, "its list of sources cannot be read: File"),
        ("amqp_server_loop__mypyc.json", b"{}", "its list of sources cannot be read: KeyError"),
        ("amqp_server_loop__mypyc.json", b"[", "its list of sources cannot be read: JSONDecodeE"),
    ],
)
def test_what_is_missing_or_broken_leaves_the_sources(
    copy: Path, name: str, octets: bytes | None, reason: str
) -> None:
    path = copy / "amqp_server" / name
    kept = path.read_bytes()
    try:
        path.unlink()
        if octets is not None:
            path.write_bytes(octets)
        exit_code, line = version(copy)
        assert exit_code == 0
        assert f"loop: interpreted because {reason}" in line
    finally:
        path.write_bytes(kept)


def test_a_module_that_was_imported_before_leaves_all_as_they_are() -> None:
    code = """
import appendlog
from amqp_server.compiled_loop import loop
print(loop.use(), loop.reason)
import amqp_server.broker.turn
print(amqp_server.broker.turn.__file__)
"""
    exit_code, printed = python("-c", code)

    first, file = printed.splitlines()
    assert exit_code == 0
    assert first.startswith("False appendlog.")
    assert first.endswith(" was imported before")
    assert file.endswith("turn.py")


def test_a_program_that_asks_twice_gets_the_same() -> None:
    code = """
import sys
from amqp_server.compiled_loop import loop
print(loop.use(), loop.use(), len([1 for each in sys.meta_path if "Loop" in type(each).__name__]))
"""
    assert python("-c", code) == (0, "True True 1\n")
