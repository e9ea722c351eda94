"""The flows of docs/architecture.md: which functions run, in which order, on which threads.

    python -m tests.docs.flows                check the page, as `tests/docs/test_flows.py` does
    python -m tests.docs.flows --update       write the order, the threads and moved functions to it
    python -m tests.docs.flows --calls FLOW   print every function of a flow, to choose from

A server with interpreted kernels runs in this process, in a temporary data directory, and a client
does one thing after the other: one flow each. The interpreter reports each call on each thread, and
the first call of each function in a flow counts. Before and after a flow the server is at rest, so
that what a flow begins in the background belongs to it, and to no other.
"""

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

# Before the first import of a kernel: compiled functions are not reported.
os.environ["AMQP_SERVER_PURE_PYTHON"] = "1"

import click
from pamqp import commands

from amqp_server.base.limits import Limits
from amqp_server.server_activity import ServerActivity
from tests.amqp_client import AmqpClient, connect
from tests.docs.flow_lines import EVENT_LOOP, PAGE, REPOSITORY, Call, flows_of, mistakes, updated
from tests.threaded_server import ThreadedServer

_PACKAGES: Final = ("amqp_server", "appendlog", "metadata", "offsets", "ring")
_LIMITS: Final = Limits(alarm_check_seconds=3600)
_NEVER_SECONDS: Final = 3600.0
_THREADS: Final = {"server": EVENT_LOOP, "uvloop": "executor", "asyncio": "executor"}
"""What the page calls threads; others keep their names."""
_QUEUE: Final = "orders"
_EXCHANGE: Final = "amq.topic"
_KEY: Final = "order.paid"
_ACKED_TAG: Final = 2


class _Recorder:
    """First calls of our functions in all threads that begin after it, while a flow is recorded."""

    def __init__(self) -> None:
        self.flows: dict[str, list[Call]] = {}
        self._calls: list[Call] | None = None
        self._seen: set[object] = set()

    @contextmanager
    def record(self, flow: str) -> Iterator[None]:
        """Record the calls of a flow until the end of the block."""
        self._seen = set()
        self._calls = self.flows[flow] = []
        try:
            yield
        finally:
            self._calls = None

    def on_event(self, frame: FrameType, event: str, _: object) -> None:
        """Record a call; the profiling hook of the interpreter."""
        calls, code = self._calls, frame.f_code
        if calls is None or event != "call" or code in self._seen:
            return
        self._seen.add(code)
        if (file := _file_of(code.co_filename)) is not None:
            function = code.co_qualname.replace("<locals>.", "")
            calls.append(Call(file, function, _thread_name()))


def _file_of(filename: str) -> str | None:
    """Return how the page names a file; None if it is none of ours."""
    path = Path(filename)
    if not path.is_relative_to(REPOSITORY):
        return None
    inside = path.relative_to(REPOSITORY)
    if inside.parts[0] not in _PACKAGES:
        return None
    if inside.parts[0] == "amqp_server":
        inside = inside.relative_to("amqp_server")
    return inside.as_posix()


def _thread_name() -> str:
    name = re.sub(r"[_-]\d+$", "", threading.current_thread().name)
    return _THREADS.get(name, name)


def run_flows(directory: Path) -> dict[str, list[Call]]:
    """Do what each flow is about, and return the first calls of its functions, in order.

    Args:
        directory: Data directory; must not exist. A server makes it, with a queue and a message,
            before the one whose flows are recorded.
    """
    with _started(directory) as server, connect(server.address) as client:
        _prepare(client)
    recorder = _Recorder()
    threading.setprofile(recorder.on_event)
    try:
        _run(directory, recorder)
    finally:
        threading.setprofile(None)
    return recorder.flows


def _started(directory: Path) -> ThreadedServer:
    return ThreadedServer(
        directory, limits=_LIMITS, offset_checkpoint_interval_seconds=_NEVER_SECONDS
    )


def _prepare(client: AmqpClient) -> None:
    client.open_channel(confirms=True)
    client.declare(_QUEUE)
    client.call(commands.Queue.Bind(0, _QUEUE, _EXCHANGE, "order.*"), commands.Queue.BindOk)
    client.publish(b"one", _QUEUE)
    client.expect_confirmed()
    client.close()


def _run(directory: Path, recorder: _Recorder) -> None:
    server = _started(directory)
    with recorder.record("start"), ExitStack() as started:
        started.enter_context(server)
        _wait_for_rest(server)
        running = started.pop_all()
    with running:
        with recorder.record("login"):
            client = connect(server.address)
            _wait_for_rest(server)
        with client:
            _run_client(server, client, recorder)
            _stop(server, client, recorder)


def _stop(server: ThreadedServer, client: AmqpClient, recorder: _Recorder) -> None:
    """Stop while a client is connected, which agrees to be disconnected."""
    with recorder.record("stop"):
        stopping = threading.Thread(target=server.stop, name="stopping")
        stopping.start()
        client.await_connection_close()
        stopping.join()


def _run_client(server: ThreadedServer, client: AmqpClient, recorder: _Recorder) -> None:
    def flow(name: str, act: Callable[[], object]) -> None:
        _wait_for_rest(server)
        with recorder.record(name):
            act()
            _wait_for_rest(server)

    def publish() -> None:
        client.publish(b"two", _KEY, _EXCHANGE)
        client.expect_confirmed()

    def acknowledge() -> None:
        client.send(commands.Basic.Ack(delivery_tag=_ACKED_TAG))
        client.call(commands.Basic.Qos(prefetch_count=10), commands.Basic.QosOk)
        server.run(server.server.checkpointer.write_now)

    def deliver() -> None:
        client.publish(b"three", _KEY, _EXCHANGE, channel=2)
        client.expect_delivery()

    client.open_channel(confirms=True)
    client.open_channel(2)
    flow("declare", lambda: client.declare("invoices"))
    # Delivery 1: this message is older than the server, so only the log has it.
    assert client.get(_QUEUE) is not None
    # The first append after the start opens the log's files.
    client.publish(b"first", _QUEUE)
    client.expect_confirmed()
    flow("publish", publish)
    flow("get", lambda: client.get(_QUEUE, no_ack=False))
    flow("ack", acknowledge)
    client.call(commands.Basic.Consume(queue=_QUEUE), commands.Basic.ConsumeOk)
    flow("deliver", deliver)


def _wait_for_rest(server: ThreadedServer) -> None:
    """Return when the server only waits for clients and timers."""
    activity = ServerActivity(server.server, lambda: False)
    server.wait_until(lambda: activity.work == "")


# The command


@click.command()
@click.option("--update", "is_update", is_flag=True, help="Write the run to the page.")
@click.option("--calls", "shown", metavar="FLOW", help="Print all functions of a flow.")
@click.option("--json", "is_json", is_flag=True, help="Print all functions of all flows as JSON.")
def compare_flows(is_update: bool, shown: str | None, is_json: bool) -> None:
    """Compare the flows of docs/architecture.md with a run of the server."""
    with tempfile.TemporaryDirectory() as directory:
        flows = run_flows(Path(directory) / "data")
    text = PAGE.read_text()
    if is_json:
        click.echo(json.dumps(flows))
    elif shown is not None:
        if shown not in flows:
            raise click.ClickException(f"no flow {shown!r}: there are {', '.join(flows)}")
        for call in flows[shown]:
            click.echo(f"{call.thread:16} {call.name}")
    elif is_update:
        changed, gone = updated(text, flows)
        PAGE.write_text(changed)
        for line in gone:
            click.echo(f"removed, for it is not called: {line}", err=True)
    else:
        wrong = [
            f"{name}: {mistake}"
            for name, steps in flows_of(text).items()
            for mistake in mistakes(steps, flows.get(name, ()))
        ]
        for line in wrong:
            click.echo(line)
        sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    compare_flows()
