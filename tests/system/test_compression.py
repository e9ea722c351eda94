"""A compressed log has smaller files and the same messages, before and after a start."""

from pathlib import Path
from typing import Any

import pytest

from tests.amqp_client import connect
from tests.servers import RunningServer

BODY = b'{"state": "delivered", "carrier": "WN", "delay": 0}' * 40
COUNT = 500


def log_bytes(storage_path: Path) -> int:
    return sum(path.stat().st_size for path in storage_path.glob("logs/**/*.log"))


@pytest.mark.parametrize(
    ("options", "arguments", "is_packed"),
    [
        pytest.param([], {}, False, id="by default not"),
        pytest.param([], {"x-compression": "zstd"}, True, id="the queue's word"),
        pytest.param(["--compression", "zstd"], {}, True, id="the server's word"),
        pytest.param(
            ["--compression", "zstd"], {"x-compression": "none"}, False, id="the queue's counts"
        ),
        pytest.param(
            ["--compression", "zstd", "--compression-min-size", "16MiB"],
            {},
            False,
            id="too little at a time",
        ),
    ],
)
def test_compressed_messages_are_delivered_unchanged(
    tmp_path: Path, options: list[str], arguments: dict[str, Any], *, is_packed: bool
) -> None:
    server = RunningServer(tmp_path, *options)
    with server.start():
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q", arguments=arguments)
            for number in range(COUNT):
                client.publish(b"%d " % number + BODY, "q")
            client.expect_confirmed()
        server.kill()
        assert (log_bytes(tmp_path) < COUNT * len(BODY) / 4) == is_packed
        server.restart()
        with connect(server.address) as client:
            client.open_channel()
            client.consume("q", no_ack=True)
            found = [client.expect_delivery().body for _ in range(COUNT)]
    assert found == [b"%d " % number + BODY for number in range(COUNT)]
