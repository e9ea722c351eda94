"""Methods that clients repeat are decoded once, whoever sends them; each is handled for itself."""

from pathlib import Path

from pamqp import frame
from pamqp.commands import Queue
from pamqp.common import FieldTable

from amqp_server.connections.session import session_methods
from amqp_server.connections.session.session_methods import REMEMBERED_BYTES_MAX, REMEMBERED_MAX
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

LIMIT: FieldTable = {"x-max-length": 7}


def remembered() -> int:
    return session_methods._remembered.cache_info().hits


def test_a_repeated_declare_is_decoded_once_and_checked_each_time(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as first:
        first.open_channel()
        declare = Queue.Declare(queue="q", arguments=LIMIT)
        assert first.call(declare, Queue.DeclareOk).queue == "q"
        before = remembered()
        with connect(server.address) as second:
            second.open_channel()
            assert second.call(declare, Queue.DeclareOk).queue == "q"
            assert remembered() > before
            # It is another queue after this, with arguments of its own.
            second.call(Queue.Delete(queue="q"), Queue.DeleteOk)
            second.call(Queue.Declare(queue="q"), Queue.DeclareOk)
            second.send(declare)
            assert "x-max-length" in second.expect_channel_close(406).reply_text


def test_a_method_that_is_refused_is_refused_each_time(tmp_path: Path) -> None:
    wrong = frame.marshal(Queue.Declare(queue="ab"), 1).replace(b"\x02ab", b"\x02\xff\xfe")
    with ThreadedServer(tmp_path) as server:
        for _ in range(2):
            with connect(server.address) as client:
                client.open_channel()
                client.send_raw(wrong)
                client.expect_connection_close(501)


def test_what_is_remembered_has_a_bound(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        before = session_methods._remembered.cache_info()
        long = Queue.Declare(queue="q", arguments={"x-note": "n" * REMEMBERED_BYTES_MAX})
        for _ in range(2):
            client.call(long, Queue.DeclareOk)
        after = session_methods._remembered.cache_info()
        assert after.maxsize == REMEMBERED_MAX
        assert (after.hits, after.misses) == (before.hits, before.misses)
