"""Where there is no compiler, a wheel runs compiled, and a source distribution interpreted."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import click
import pika
import pytest

from tests.built_package import built
from tests.servers import NO_MANAGEMENT, REPOSITORY

pytestmark = pytest.mark.timeout(600)
"""The wheel is built here, which takes minutes on a busy machine."""

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def run(
    *command: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def new_environment(directory: Path) -> Path:
    """Make an environment with the dependencies of this one; return the directory of commands."""
    venv.EnvBuilder(symlinks=True).create(directory)
    # Not with the package, whose finder lies in another file.
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
    return directory / "bin"


def nothing_but(commands: Path) -> dict[str, str]:
    """Return the variables of a machine that has no other commands than these."""
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "TMPDIR", "LANG")}
    return {**kept, "PATH": str(commands)}


def served(commands: Path, environment: dict[str, str], storage: Path) -> list[str]:
    """Run a server, publish a message, get it, stop; return what the server logged."""
    with subprocess.Popen(
        (str(commands / "amqp-server"), "--port", "0", "--storage-path", str(storage)),
        cwd=storage.parent,
        env={**environment, **NO_MANAGEMENT},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        lines = []
        try:
            for line in server.stderr:
                lines.append(line)
                if line.startswith("listening on "):
                    break
            port = int(lines[-1].rpartition(":")[2])
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as client:
                channel = client.channel()
                channel.confirm_delivery()
                channel.queue_declare("q", durable=True)
                channel.basic_publish("", "q", b"hello")
                assert channel.basic_get("q")[2] == b"hello"
        finally:
            server.terminate()
            lines += server.stderr.readlines()
    assert server.returncode == 0
    return lines


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and install it; return the directory of its commands."""
    wheel = built("wheel", tmp_path_factory)
    commands = new_environment(tmp_path_factory.mktemp("installed") / "environment")
    python = str(commands / "python")
    options = ("--no-index", "--no-deps", "--no-compile")
    run(*PIP, "--python", python, "install", *options, str(wheel))
    return commands


@pytest.fixture
def without_compiler(installed: Path) -> dict[str, str]:
    """The variables of a machine with nothing but the wheel's commands."""
    return {**nothing_but(installed), "AMQP_SERVER_REQUIRE_COMPILED": "1"}


def test_every_kernel_of_an_installed_wheel_is_compiled(
    installed: Path, without_compiler: dict[str, str]
) -> None:
    version = run(str(installed / "amqp-server"), "--version", environment=without_compiler).stdout

    assert "compiled" in version
    assert "interpreted" not in version
    where = run(
        *(str(installed / "python"), "-P", "-c", "import ring; print(ring.__file__)"),
        environment=without_compiler,
    )
    assert Path(where.stdout.strip()).is_relative_to(installed.parent)


def test_an_installed_wheel_has_every_file_of_the_page(
    installed: Path, without_compiler: dict[str, str]
) -> None:
    code = "import amqp_server.management as m; print(m.__path__[0])"
    package = run(str(installed / "python"), "-P", "-c", code, environment=without_compiler)
    page = Path(package.stdout.strip()) / "page"

    assert page.is_relative_to(installed.parent)
    source = REPOSITORY / "amqp_server" / "management" / "page"
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert wanted
    assert {path.relative_to(page) for path in page.rglob("*") if path.is_file()} == wanted


def test_an_installed_wheel_serves_a_client(
    installed: Path, without_compiler: dict[str, str], tmp_path: Path
) -> None:
    lines = served(installed, without_compiler, tmp_path)

    assert not any("interpreted" in line for line in lines)


def test_a_source_distribution_without_a_compiler_is_installed_and_says_what_it_is(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = built("sdist", tmp_path_factory)
    commands = new_environment(tmp_path / "environment")
    alone = nothing_but(commands)
    pip = (*PIP, "--verbose", "--no-cache-dir", "--python", str(commands / "python"), "install")
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--no-compile")
    installing = run(*pip, *options, str(source), environment=alone)
    version = run(str(commands / "amqp-server"), "--version", environment=alone).stdout
    lines = served(commands, alone, tmp_path / "data")

    printed = installing.stderr.splitlines()
    (said,) = (line for line in printed if line.strip().startswith("amqp-server: "))
    assert "is interpreted (there is no C compiler, or it has no headers of Python)" in said
    assert "py3-none-any.whl" in installing.stdout
    assert "loop: interpreted because it is not built, framing: interpreted" in version
    (warning,) = (line for line in lines if "interpreted" in line)
    assert "level=warning" in warning
    assert "interpreted='loop (it is not built), framing, records'" in warning


def test_pytest_finds_the_fixtures_of_an_installed_wheel(
    installed: Path, without_compiler: dict[str, str], tmp_path: Path
) -> None:
    code = (
        "def test_it(amqp_url):\n    assert amqp_url.startswith('amqp://guest:guest@127.0.0.1:')\n"
    )
    (tmp_path / "test_it.py").write_text(code)
    printed = run(
        *(str(installed / "python"), "-P", "-m", "pytest", "-p", "no:cacheprovider"),
        *("-p", "no:asyncio", "-W", "error", "--rootdir", str(tmp_path), str(tmp_path)),
        environment=without_compiler,
    )
    assert "1 passed" in printed.stdout
