"""The image is built from a wheel, and its container is one server: `make check-tools` runs this.

Needs root, podman with buildah and runc, debootstrap, and a wheel for the Python of Debian in dist/
(`make wheels`): Debian with its own Python takes the place of the base image, which no registry has
to bring. Nothing of podman is left behind.
"""

import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from bench.rabbitmq import free_ports
from tests.servers import REPOSITORY

DEBIAN = "bookworm"
BASE = "localhost/python:slim"
IMAGE = "amqp-server"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
HARDENED = (
    *("--read-only", "--tmpfs", "/tmp", "--cap-drop", "all"),
    *("--security-opt", "no-new-privileges", "--network", "host"),
)

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("podman") is None or shutil.which("debootstrap") is None,
        reason="needs root, podman and debootstrap",
    ),
]


def run(*command: str, expected: int | None = 0, all_output: bool = False) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    everything = done.stdout + done.stderr
    assert expected is None or done.returncode == expected, everything
    return everything if all_output else done.stdout


class Podman:
    """Containers of the image, with storage of their own."""

    def __init__(self, directory: Path) -> None:
        self._store = (
            *("--root", str(directory / "root"), "--runroot", str(directory / "run")),
            *("--storage-driver", "vfs"),
        )
        # What this machine allows; podman would ask for more than that.
        _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limits = ("--ulimit", f"nofile={files}:{files}", "--ulimit", "nproc=4096:4096")

    def __call__(self, *words: str, expected: int | None = 0, all_output: bool = False) -> str:
        """Run a command of podman; return what it prints."""
        command = ("podman", *self._store, "--cgroup-manager", "cgroupfs", "--runtime", "runc")
        return run(*command, *words, expected=expected, all_output=all_output).strip()

    def buildah(self, *words: str) -> str:
        """Run a command of buildah; return what it prints."""
        return run("buildah", *self._store, *words).strip()

    def container(
        self, *words: str, expected: int | None = 0, options: tuple[str, ...] = (), **variables: str
    ) -> str:
        """Run a container of the image to its end, or with `--detach`; return what it prints."""
        given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        command = ("run", *self._limits, *HARDENED, *options, *given, IMAGE, *words)
        return self(*command, expected=expected, all_output=expected != 0)

    def logs(self, name: str) -> str:
        """Return what a container has written to both outputs."""
        return self("logs", name, all_output=True)


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    """Make the base image, and ours from it."""
    # podman does not like paths as long as those of pytest.
    with tempfile.TemporaryDirectory(prefix="image", ignore_cleanup_errors=True) as name:
        base = Path(name) / "base"
        packages = "--include=python3,python3-venv,python-is-python3,ca-certificates"
        run("debootstrap", "--variant=minbase", packages, DEBIAN, str(base))
        podman = Podman(Path(name))
        container = podman.buildah("from", "scratch")
        podman.buildah("copy", container, str(base), "/")
        path = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        podman.buildah("config", "--env", f"PATH={path}", container)
        podman.buildah("commit", "--rm", container, BASE)
        # How this machine reaches its index.
        reach = [word for name in os.environ if name.startswith("PIP_") for word in ("--env", name)]
        podman.buildah(
            *("bud", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={BASE}"),
            *("--ignorefile", "deploy/Dockerfile.dockerignore", "--env", "PIP_FIND_LINKS-"),
            *("--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro", *reach),
            *("--file", "deploy/Dockerfile", "--tag", IMAGE, "."),
        )
        try:
            yield podman
        finally:
            podman("rm", "--all", "--force", "--time", "0", "--volumes", expected=None)


def logged(podman: Podman, name: str, text: str, *, times: int = 1) -> None:
    """Wait for a line of the log of a container."""
    while podman.logs(name).count(text) < times:
        running = podman("inspect", "--format", "{{.State.Running}}", name)
        assert running == "true", podman.logs(name)
        time.sleep(0.1)


def test_a_container_without_a_user_says_what_it_wants(podman: Podman) -> None:
    assert "set RABBITMQ_DEFAULT_USER" in podman.container(options=("--rm",), expected=2)


def test_the_image_has_no_pip_no_compiler_and_a_list_of_what_it_has(podman: Podman) -> None:
    listed = json.loads(
        podman.container("/opt/amqp-server/sbom.cdx.json", options=("--rm", "--entrypoint", "cat"))
    )
    names = {each["name"] for each in listed["components"]}
    assert listed["bomFormat"] == "CycloneDX"
    assert names >= {"amqp-server", "uvloop", "orjson"}
    assert "pip" not in names
    version = podman.container("--version", options=("--rm",))
    assert "interpreted" not in version
    assert "compiled" in version
    look = "command -v gcc; command -v cc; command -v amqp-server"
    found = podman.container("-c", look, options=("--rm", "--entrypoint", "sh"))
    assert found == "/opt/amqp-server/bin/amqp-server"


def test_a_container_serves_is_killed_and_loses_nothing(podman: Podman, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    password = tmp_path / "password"
    password.write_text("hidden\n")
    password.chmod(0o644)
    tmp_path.chmod(0o755)
    podman.container(
        options=(
            *("--detach", "--name", "broker", "--volume", "data:/var/lib/amqp-server"),
            *("--volume", f"{password}:/run/secrets/password:ro"),
        ),
        RABBITMQ_USERNAME="shop",
        RABBITMQ_PASSWORD_FILE="/run/secrets/password",
        RABBITMQ_NODE_PORT_NUMBER=str(port),
        AMQP_SERVER_MANAGEMENT_PORT="0",
        AMQP_SERVER_METRICS_PORT="0",
    )
    logged(podman, "broker", "listening on")
    url = pika.URLParameters(f"amqp://shop:hidden@127.0.0.1:{port}")
    with pika.BlockingConnection(url) as client:
        channel = client.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"kept", pika.BasicProperties(delivery_mode=2))
    inside = "id -u; tr '\\0' ' ' </proc/1/cmdline; touch /new 2>&1; amqp-server status"
    state = podman("exec", "broker", "sh", "-c", inside)
    podman("kill", "broker")
    podman("wait", "broker")

    assert state.startswith("10000\ntini -- container-start ")
    assert "Read-only file system" in state
    assert "alarms: none" in state
    podman("start", "broker")
    logged(podman, "broker", "listening on", times=2)
    with pika.BlockingConnection(url) as client:
        assert client.channel().basic_get("q")[2] == b"kept"
    assert podman("healthcheck", "run", "broker") in {"", "healthy"}

    # A process whose parent has ended belongs to the first one, which must take its end.
    orphan = podman("exec", "broker", "sh", "-c", "sleep 0.2 >/dev/null & echo $!")
    wait = f"while [ -e /proc/{orphan} ]; do sleep 0.1; done"
    podman("exec", "broker", "timeout", "60", "sh", "-c", wait)
    podman("stop", "--time", "60", "broker")
    assert podman("inspect", "--format", "{{.State.ExitCode}}", "broker") == "0"
    podman("rm", "broker")
