"""Takes the pictures of docs/the-page.md: a shop with traffic for six minutes, in Chromium.

    make pictures

Its queues have what the page finds a reason for: nobody consumes, consumers too slow, consumers
stuck, a queue that is full, dead letters, a stream.
"""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.management.conftest import ManagementOptions, ManagementServer
from tests.servers import RunningServer

HERE: Final = Path(__file__).parent
IMAGES: Final = HERE.parents[2] / "docs" / "images"
IDLE_SECONDS: Final = 60
TRAFFIC_SECONDS: Final = 360
TENANTS: Final = 240
QUEUES_OF_TENANT: Final = 10
_TICK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic of a queue.

    Attributes:
        queue: Name of the queue.
        published: Messages a second that come in.
        acknowledged: Messages a second that its consumer finishes; None without a consumer.
        prefetch: Prefetch of the consumer.
        arguments: Arguments of the queue.
    """

    queue: str
    published: int
    acknowledged: int | None = None
    prefetch: int = 50
    arguments: tuple[tuple[str, object], ...] = ()


FLOWS: Final = (
    Flow("payments", 110),
    Flow("orders.slow", 78, 28),
    Flow("thumbnails", 39, 0, prefetch=20),
    Flow("clicks", 20, arguments=(("x-queue-type", "stream"),)),
    Flow("limited", 98, arguments=(("x-max-length", 5000),)),
    Flow("mailer", 59, 10_000),
    Flow("audit-trail", 30, 10_000),
)


def main() -> None:
    """Run the shop, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or shutil.which("pngquant") is None:
        raise SystemExit("A program is missing: apt-get install chromium pngquant")
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "data"
        running = stack.enter_context(RunningServer(path, *ManagementOptions))
        running.start()
        server = ManagementServer(running)
        declare(server)
        # So long that the charts show where the traffic begins.
        time.sleep(IDLE_SECONDS)
        for flow in FLOWS:
            stack.enter_context(traffic(server, flow))
        leave_dead_letters(server)
        time.sleep(TRAFFIC_SECONDS)
        environment = os.environ | {
            "PAGE_URL": server.url,
            "CHROMIUM": chromium,
            "IMAGES": str(IMAGES),
        }
        subprocess.run(["node", str(HERE / "pictures.mjs")], env=environment, check=True)
    pictures = sorted(map(str, IMAGES.glob("page-*.png")))
    subprocess.run(["pngquant", "--force", "--ext", ".png", "--strip", *pictures], check=True)


def connect(server: ManagementServer, name: str, vhost: str = "/") -> BlockingConnection:
    """Return a connection with a name."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1",
        server.amqp_port,
        vhost,
        heartbeat=0,
        client_properties={"connection_name": name},
    )
    return BlockingConnection(parameters)


def declare(server: ManagementServer) -> None:
    """Make the queues of the shop, and a virtual host with many of other teams."""
    with connect(server, "set-up") as connection:
        channel = connection.channel()
        channel.exchange_declare("dlx", "fanout", durable=True)
        channel.queue_declare("orders.dead", durable=True)
        channel.queue_bind("orders.dead", "dlx")
        channel.queue_declare(
            "orders.created", durable=True, arguments={"x-dead-letter-exchange": "dlx"}
        )
        channel.queue_declare("search.index", durable=True)
        for flow in FLOWS:
            channel.queue_declare(flow.queue, durable=True, arguments=dict(flow.arguments))
    assert server.put("/api/vhosts/tenants").status == 201
    server.put("/api/permissions/tenants/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    with connect(server, "set-up", "tenants") as connection:
        channel = connection.channel()
        for tenant in range(TENANTS):
            for number in range(QUEUES_OF_TENANT):
                channel.queue_declare(f"tenant-{tenant:03}.events-{number:02}", durable=True)


def leave_dead_letters(server: ManagementServer) -> None:
    """Reject some orders, and leave others."""
    with connect(server, "orders") as connection:
        channel = connection.channel()
        for number in range(30):
            publish(channel, "orders.created", number)
        for _ in range(8):
            method = channel.basic_get("orders.created")[0]
            assert method is not None
            channel.basic_nack(method.delivery_tag, requeue=False)


def publish(channel: BlockingChannel, queue: str, number: int) -> None:
    """Publish an order."""
    body = b'{"order": %d, "customer": %d, "total": %.1f}' % (number, number % 7, number * 3.5)
    properties = pika.BasicProperties(
        content_type="application/json", delivery_mode=2, headers={"customer": number % 7}
    )
    channel.basic_publish("", queue, body, properties)


@contextmanager
def traffic(server: ManagementServer, flow: Flow) -> Iterator[None]:
    """Publish to a queue, and consume from it, in threads of their own."""
    over = threading.Event()
    threads = [threading.Thread(target=_publish, args=(server, flow, over))]
    if flow.acknowledged is not None:
        threads.append(threading.Thread(target=_consume, args=(server, flow, over)))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _publish(server: ManagementServer, flow: Flow, over: threading.Event) -> None:
    with connect(server, f"{flow.queue} publisher") as connection:
        channel = connection.channel()
        begin, done = time.monotonic(), 0
        while not over.wait(_TICK_SECONDS):
            due = int((time.monotonic() - begin) * flow.published)
            for number in range(done, due):
                publish(channel, flow.queue, number)
            done = due
            connection.process_data_events(0)


def _consume(server: ManagementServer, flow: Flow, over: threading.Event) -> None:
    assert flow.acknowledged is not None
    with connect(server, f"{flow.queue} worker") as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=flow.prefetch)
        waiting: list[int] = []
        channel.basic_consume(
            flow.queue,
            lambda _, method, __, ___: waiting.append(method.delivery_tag or 0),
            consumer_tag=f"{flow.queue}-worker",
        )
        begin, done = time.monotonic(), 0
        while not over.is_set():
            connection.process_data_events(_TICK_SECONDS)
            due = int((time.monotonic() - begin) * flow.acknowledged)
            ready = waiting[: max(due - done, 0)]
            done = done + len(ready) if len(ready) < len(waiting) else due
            for tag in ready:
                channel.basic_ack(tag)
            del waiting[: len(ready)]


if __name__ == "__main__":
    main()
