"""The page on TLS: its certificates can be made, and its programs connect with them."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import StartServer
from tests.docs.code_blocks import REPOSITORY, texts_of
from tests.limits import HANG_SECONDS
from tests.tls.conftest import tls_address

PAGE = REPOSITORY / "docs" / "tls.md"

pytestmark = pytest.mark.interop


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Make the certificates of the page; return their directory."""
    assert shutil.which("openssl"), "openssl is not installed"
    page = PAGE.read_text().replace("\\\n", "")
    lines = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    assert len(lines) == 6
    subprocess.run(
        ["/bin/sh", "-e", "-c", "\n".join(lines)],
        cwd=tmp_path,
        capture_output=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    return tmp_path


def test_the_programs_of_the_page_connect(certificates: Path, start_server: StartServer) -> None:
    files = ("server.pem", "server.key", "ca.pem")
    certificate, key, authority = (str(certificates / name) for name in files)
    server = start_server(
        *("--tls-certificate", certificate, "--tls-key", key, "--tls-port", "0"),
        *("--tls-ca", authority, "--tls-verify", "peer"),
    )
    _, port = tls_address(server)
    page = PAGE.read_text()
    commands = re.findall(r"^amqp-server ((?:users|permissions) .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        run(
            certificates,
            *("-m", "amqp_server", *shlex.split(command)),
            *("--storage-path", str(server.storage_path)),
        )
    programs = texts_of(PAGE, "python")
    assert len(programs) == 2
    for program in programs:
        run(certificates, "-c", program.replace("5671", str(port)) + "connection.close()\n")
    opened = [line for line in server.messages if "connection open" in line]
    assert len(opened) == 2
    assert "user='guest'" in opened[0]
    assert "user='CN=billing,O=Example'" in opened[1]


def run(directory: Path, *arguments: str) -> None:
    """Run Python in the directory of the certificates."""
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
