"""A wheel runs with compiled kernels where there is no compiler."""

import fcntl
import os
import subprocess
import sys
import venv
from pathlib import Path

import click
import pika
import pytest

from tests.servers import REPOSITORY

pytestmark = pytest.mark.timeout(600)
"""The wheel is built here, which takes minutes on a busy machine."""

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def run(*command: str, environment: dict[str, str] | None = None) -> str:
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
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and install it; return the directory of its commands."""
    directory = tmp_path_factory.mktemp("wheel")
    # All builds use the same folder of the repository, and each worker of xdist makes one.
    with (tmp_path_factory.getbasetemp().parent / "wheel.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(
            *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
            *("--skip-dependency-check", "--outdir", str(directory)),
            # What the compiler does with `-O3` takes a minute, and `make prepare` has shown it.
            environment={**os.environ, "CFLAGS": "-O0"},
        )
    (wheel,) = directory.glob("amqp_server-*.whl")
    environment = directory / "environment"
    venv.EnvBuilder(symlinks=True).create(environment)
    python = str(environment / "bin" / "python")
    run(*PIP, "--python", python, "install", "--no-index", "--no-deps", str(wheel))
    # The dependencies of this environment; not the package, whose finder lies in another file.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
    return environment / "bin"


@pytest.fixture
def without_compiler(installed: Path) -> dict[str, str]:
    """The variables of a machine with nothing but the wheel's commands."""
    kept = {name: value for name, value in os.environ.items() if name in ("HOME", "TMPDIR", "LANG")}
    return {**kept, "PATH": str(installed), "AMQP_SERVER_REQUIRE_COMPILED": "1"}


def test_every_kernel_of_an_installed_wheel_is_compiled(
    installed: Path, without_compiler: dict[str, str]
) -> None:
    version = run(str(installed / "amqp-server"), "--version", environment=without_compiler)

    assert "compiled" in version
    assert "interpreted" not in version
    where = run(
        *(str(installed / "python"), "-P", "-c", "import ring; print(ring.__file__)"),
        environment=without_compiler,
    )
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_an_installed_wheel_has_every_file_of_the_page(
    installed: Path, without_compiler: dict[str, str]
) -> None:
    code = "import amqp_server.management as m; print(m.__path__[0])"
    package = run(str(installed / "python"), "-P", "-c", code, environment=without_compiler)
    page = Path(package.strip()) / "page"

    assert page.is_relative_to(installed.parent)
    source = REPOSITORY / "amqp_server" / "management" / "page"
    wanted = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert wanted
    assert {path.relative_to(page) for path in page.rglob("*") if path.is_file()} == wanted


def test_an_installed_wheel_serves_a_client(
    installed: Path, without_compiler: dict[str, str], tmp_path: Path
) -> None:
    command = (str(installed / "amqp-server"), "--port", "0", "--storage-path", str(tmp_path))
    with subprocess.Popen(
        command, cwd=tmp_path, env=without_compiler, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            line = next(line for line in server.stderr if line.startswith("listening on "))
            port = int(line.rpartition(":")[2])
            with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as client:
                channel = client.channel()
                channel.confirm_delivery()
                channel.queue_declare("q", durable=True)
                channel.basic_publish("", "q", b"hello")
                assert channel.basic_get("q")[2] == b"hello"
        finally:
            server.terminate()
            server.stderr.read()
    assert server.returncode == 0


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
    assert "1 passed" in printed
