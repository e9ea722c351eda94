"""What SECURITY.md says of the files is so."""

import re
import stat

from pamqp.commands import Queue

from amqp_server import __version__
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.docs.code_blocks import REPOSITORY

PAGE = REPOSITORY / "SECURITY.md"


def listed_entries() -> set[str]:
    """Return the names of the table of the data directory."""
    section = (
        PAGE.read_text().partition("## What the data directory holds")[2].partition("\n## ")[0]
    )
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name.rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_entry_of_a_data_directory_is_listed_and_private(start_server: StartServer) -> None:
    server = start_server()
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk)
        client.publish(b"one", "q")
    assert server.terminate() == 0
    found = {path.name for path in server.storage_path.iterdir()}

    assert {"logs", "metadata", "audit"} <= found
    assert found - listed_entries() == set()
    for path in server.storage_path.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode & 0o077 == 0 or stat.S_ISSOCK(path.lstat().st_mode), path


def test_the_table_has_what_operations_lists() -> None:
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    block = page.partition("## 1. The data directory\n\n```text\n")[2].partition("```")[0]
    tops = re.findall(r"^  (\S+)", block, re.MULTILINE)

    assert len(tops) > 10
    names = {re.split(r"[/<]", name)[0] for name in tops}
    assert names - listed_entries() == set()


def test_the_version_that_gets_fixes_is_this_one() -> None:
    supported = re.findall(r"^\| ([0-9.]+) \| yes \|", PAGE.read_text(), re.MULTILINE)

    assert supported == [".".join(__version__.split(".")[:2])]
