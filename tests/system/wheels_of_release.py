"""The files of a release in dist/, installed as their users do: `make check-wheels`.

Those for this machine's system and for each Python that `.ci/python` finds; the others are skipped.
Prints how large an installation is, and how long the way to the first message is, with what uv and
pipx keep from the first time.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from tests.servers import REPOSITORY

RELEASE = REPOSITORY / "dist"
TOOLS = REPOSITORY / "build" / "wheels" / "tools" / "bin"
WHEELS = sorted(RELEASE.glob("*-manylinux_*_x86_64.whl"))
VERSIONS = [f"3.{wheel.name.split('-')[2].removeprefix('cp3')}" for wheel in WHEELS]
DEPENDENCIES = {
    *("aiofiles", "aiohappyeyeballs", "aiohttp", "aiosignal", "attrs", "click", "crc32c"),
    *("frozenlist", "idna", "multidict", "orjson", "prometheus-client", "propcache", "regex"),
    *("typing-extensions", "uvloop", "yarl", "zstandard"),
}
"""Of the bare broker; Python 3.13 needs one less."""
OTHERS = {"pika"}
"""What the trial needs."""
DECODING = ("numpy", "pyarrow")
"""What the tests of the kernels that decode for Spark need."""

pytestmark = pytest.mark.timeout(1800)


def run(
    *command: str | Path, directory: Path = RELEASE, environment: dict[str, str] | None = None
) -> str:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_of(version: str) -> str:
    """Return the path of a Python; skips the test if there is none."""
    done = subprocess.run(
        (REPOSITORY / ".ci" / "python", version), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(done.stderr)
    return done.stdout.strip()


def without_compiler(directory: Path) -> dict[str, str]:
    """Return the variables of a user whose pip, pipx and uv know the release, and no compiler."""
    commands = directory / "commands"
    commands.mkdir()
    for name in ("uv", "uvx", "pipx"):
        (commands / name).symlink_to(TOOLS / name)
    # The scripts of uv's tools call them.
    for name in ("dirname", "realpath"):
        (commands / name).symlink_to(str(shutil.which(name)))
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in {"HOME", "LANG", "TMPDIR"} or name.startswith(("PIP_", "SSL_", "UV_"))
    }
    return {
        **kept,
        "PATH": str(commands),
        "PIP_FIND_LINKS": f"{RELEASE} {os.environ.get('PIP_FIND_LINKS', '')}".strip(),
        "PIPX_HOME": str(directory / "pipx"),
        "UV_FIND_LINKS": str(RELEASE),
        "UV_CACHE_DIR": str(directory / "cache"),
        "UV_PYTHON_DOWNLOADS": "never",
        "AMQP_SERVER_REQUIRE_COMPILED": "1",
    }


def installed_bytes(environment: Path) -> tuple[int, int]:
    """Return the octets of our packages, and of all others."""
    (packages,) = environment.glob("lib/python*/site-packages")
    (files,) = packages.glob("amqp_server-*.dist-info/RECORD")
    ours = sum(
        (packages / line.split(",")[0]).stat().st_size
        for line in files.read_text().splitlines()
        if not line.startswith("../")
    )
    everything = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
    return ours, everything - ours


@pytest.mark.parametrize("version", VERSIONS)
def test_a_wheel_is_installed_and_the_server_killed_and_started_again(
    version: str, tmp_path: Path
) -> None:
    python = python_of(version)
    environment = without_compiler(tmp_path)
    uv = TOOLS / "uv"
    trial = REPOSITORY / "tests" / "first_message.py"
    for attempt in ("first", "second"):
        place = tmp_path / attempt
        began = time.monotonic()
        run(uv, "venv", "--quiet", "--python", python, place, environment=environment)
        options = ("--quiet", "--only-binary", "amqp-server", "--python", place / "bin" / "python")
        run(uv, "pip", "install", *options, "amqp-server", environment=environment)
        seconds = time.monotonic() - began
    ours, rest = installed_bytes(place)
    listed = run(uv, "pip", "list", "--format", "json", *options[3:], environment=environment)
    names = {each["name"] for each in json.loads(listed)}
    run(uv, "pip", "install", *options, *OTHERS, environment=environment)

    commands = place / "bin"
    printed = run(
        *(commands / "python", trial, commands / "amqp-server"), environment=environment
    ).strip()
    stated = run(commands / "amqp-server", "--version", environment=environment)

    assert DEPENDENCIES - {"typing-extensions"} <= names - {"amqp-server"} <= DEPENDENCIES
    assert "compiled" in stated
    assert "interpreted" not in stated
    size = f"{ours / 1e6:.1f} MB, {len(names) - 1} others {rest / 1e6:.1f} MB"
    print(f"\n{version}: {size}; installed in {seconds:.2f} s; {printed}")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", [("uvx", "--python"), ("pipx", "run", "--python")], ids=" ".join)
def test_a_tool_runs_the_server_that_nobody_installed(
    tool: tuple[str, ...], version: str, tmp_path: Path
) -> None:
    python = python_of(version)
    environment = without_compiler(tmp_path)
    trial = REPOSITORY / "tests" / "first_message.py"
    command = (sys.executable, str(trial), str(TOOLS / tool[0]), *tool[1:], python, "amqp-server")
    run(*command, environment=environment)
    printed = run(*command, environment=environment)

    print(f"\n{version}: {tool[0]}: {printed.strip()}")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_wheel_brings_does_the_same_as_the_sources_and_what_rabbitmq_does(
    version: str, tmp_path: Path
) -> None:
    python = python_of(version)
    (source,) = RELEASE.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    (wheel,) = RELEASE.glob(f"*-cp{version.replace('.', '')}-manylinux_*_x86_64.whl")
    with zipfile.ZipFile(wheel) as archived:
        names = [name for name in archived.namelist() if name.endswith((".so", "__mypyc.json"))]
        archived.extractall(tree, names)
    place = tmp_path / "environment"
    run(TOOLS / "uv", "venv", "--quiet", "--python", python, place)
    options = ("--quiet", "--python", place / "bin" / "python", "--group", "dev")
    wanted = ("--constraint", "constraints.txt", "--requirement", "pyproject.toml", *DECODING)
    run(TOOLS / "uv", "pip", "install", *options, *wanted, directory=tree)
    environment = {**os.environ, "AMQP_SERVER_REQUIRE_COMPILED": "1", "PYTHONPATH": str(tree)}
    printed = run(
        *(place / "bin" / "python", "-m", "pytest", "--quiet", "--numprocesses", "2"),
        *("-m", "not spark", "tests/parity", "tests/conformance", "tests/crash"),
        directory=tree,
        environment=environment,
    )
    shutil.rmtree(tree)

    print(f"\n{version}: {printed.splitlines()[-1]}")
