"""The first start on a directory of format 1: a disk that dies in any operation of the upgrade."""

import errno
import random
import re
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from amqp_server.base.errors import StartupError
from metadata.data_format import DataFormat, read_format
from metadata.document import Document, decode_document
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.faults.inline_server import InlineServer
from tests.faults.power_cuts import STRIDE, own_root
from tests.sampled import some_of_each_kind
from tests.stored.make import ARCHIVES

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(300 + 9_000 // STRIDE)]

PLAIN_NAME = re.compile("[a-z._-]+")
ARCHIVE = ARCHIVES / "v1-2585fb2-killed.tar.gz"


ACCESS_KINDS = {"access", "permissions", "users"}


def unpack(root: Path) -> Path:
    """Unpack a directory that a killed server of format 1 left."""
    storage = root / "data"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(storage, filter="data")
    return storage


def documents(storage: Path) -> list[Document]:
    """Return all definitions but users and their permissions, which come with the upgrade."""
    found = [
        decode_document(path.read_bytes(), accepts_unsigned=True)
        for path in sorted(storage.glob("metadata/*/*/*.json"))
    ]
    return [each for each in found if each.kind not in ACCESS_KINDS]


def is_signed(path: Path) -> bool:
    return b'"crc32c"' in path.read_bytes()


def contents(server: InlineServer, queues: list[str]) -> dict[str, list[bytes]]:
    """Return the bodies of all messages that are ready in these queues."""
    client = server.connect()
    found: dict[str, list[bytes]] = {}
    for queue in queues:
        bodies = found[queue] = []
        while (message := client.get(queue, no_ack=True)) is not None:
            bodies.append(message[2])
    return found


def test_a_disk_that_dies_in_any_operation_of_an_upgrade_loses_nothing(tmp_path: Path) -> None:
    """Some operations of each kind, or every one in the long run (`FAULT_STRIDE=1`)."""
    with own_root(tmp_path / "whole") as root:
        storage = unpack(root)
        before = documents(storage)
        queues = [
            each.name
            for each in before
            if (each.kind, each.vhost) == ("queues", "/") and PLAIN_NAME.fullmatch(each.name)
        ]
        with InlineServer(storage) as server:
            expected = contents(server, queues)
    with own_root(tmp_path / "again") as root:
        whole = FaultyFileSystem(root)
        with InlineServer(unpack(root), whole):
            pass
    assert sum(map(len, expected.values())) > 100
    # Of a start that nothing disturbs: threads may change the order a little.
    numbers = some_of_each_kind(whole.operations, 0, STRIDE)
    for number in [*numbers, len(whole.operations)]:
        with own_root(tmp_path / str(number)) as root:
            storage = unpack(root)
            dying = FaultyFileSystem(root, number, errno.EIO)
            with suppress(StartupError), InlineServer(storage, dying):
                pass
            dying.power_cut(random.Random(number))
            if read_format(storage) is DataFormat.EARLIER:
                # Programs that know this format only must be able to read all of it.
                assert not any(map(is_signed, storage.glob("metadata/*/*/*.json"))), number
            assert documents(storage) == before, number
            with InlineServer(storage) as server:
                assert contents(server, queues) == expected, number
            assert read_format(storage) is DataFormat.CURRENT, number
            assert all(map(is_signed, storage.glob("metadata/*/*/*.json"))), number
    assert len(numbers) > 8
