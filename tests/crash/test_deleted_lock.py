"""The file LOCK is deleted under a running server."""

import pytest

from cli.exit_codes import EXIT_TRY_AGAIN
from cli.main import main
from metadata.errors import StorageLockedError
from metadata.lock_file import hold_file
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.data_directories import take
from tests.servers import RunningServer


def test_no_second_server_starts_and_the_lock_file_is_made_again(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    server.may_fail = True
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"first", "q")
        client.expect_confirmed()
        (server.storage_path / "LOCK").unlink()
        second = RunningServer(server.storage_path)
        second.begin()
        # Its holder may be about to end: a service manager tries again.
        assert second.wait() == EXIT_TRY_AGAIN
        assert "in use by" in second.messages[-1]
        assert main(["checkpoint", "--storage-path", str(server.storage_path)]) == 0
        server.wait_for_message("LOCK was deleted or replaced, made again")
        assert (server.storage_path / "LOCK").read_text() == f"{server.pid}\n"
        with pytest.raises(StorageLockedError):
            hold_file(server.storage_path / "LOCK")
        client.publish(b"second", "q")
        client.expect_confirmed()
    assert server.terminate() == 0
    assert take(server.storage_path, "q") == [b"first", b"second"]


def test_no_checkpoint_is_written_beside_a_server_of_an_earlier_version(
    start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    server.may_fail = True
    storage = server.storage_path
    checkpoints = {path: path.read_bytes() for path in (storage / "offsets").iterdir()}
    (storage / "LOCK").unlink()
    # All that such a server locks.
    earlier = hold_file(storage / "LOCK")
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.publish(b"kept", "q")
        client.expect_confirmed()
    assert main(["checkpoint", "--storage-path", str(storage)]) == 1
    assert "LOCK was deleted under this server, stop one of the two" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (storage / "offsets").iterdir()} == checkpoints
    earlier.release()
    assert main(["checkpoint", "--storage-path", str(storage)]) == 0
    server.wait_for_message("LOCK was deleted or replaced, made again")
    assert server.terminate() == 0
    assert take(storage, "q") == [b"kept"]
