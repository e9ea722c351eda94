"""Celery tasks: the octets that Celery and kombu send, recorded and then sent again."""

import random
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from bench.amqp_frames import BASIC, BODY, HEADER, Frame, frame
from bench.broker_url import BrokerUrl
from bench.errors import BenchError
from bench.publisher import PUBLISH_CHANNEL
from bench.running_broker import RunningBroker
from bench.traffic.figures import TrafficFigures
from bench.traffic.frames import FIELD_DIGITS
from bench.traffic.message_source import RecordedMessages
from bench.traffic.recording_proxy import RecordingProxy
from bench.traffic.row import TO_DELIVERY, TrafficEffort, TrafficRow
from bench.traffic.shape import Sizes, uuid_with_placeholder
from bench.traffic.topology import Topology
from bench.traffic.traffic_run import TrafficRun

_TASKS: Final = 200
_LEAD: Final = len('[["')
"""Octets of a task's body before the text of its first argument."""
_NAMES: Final = ("shop.mail.send", "shop.orders.settle", "shop.images.resize", "shop.reports.day")
_SIZES: Final = Sizes(median=300, spread=1.0, least=16, most=20_000)
_PUBLISH: Final = (BASIC, 40)
_TOPOLOGY: Final = Topology(("celery",), exchange="celery", kind="direct")


@dataclass(frozen=True, slots=True)
class _CeleryRun:
    """Records tasks through the broker itself, and then runs them."""

    def __call__(self, broker: RunningBroker, effort: TrafficEffort) -> TrafficFigures:
        """Run once; raises as `TrafficRun`."""
        source = RecordedMessages(record_tasks(broker.url, effort.seed, _TASKS), _LEAD)
        # Celery's defaults: no confirms, four tasks in advance for each of four processes.
        run = TrafficRun(_TOPOLOGY, source, publishers=4, window=0, prefetch=16, batch=1)
        return run(broker, effort)


def record_tasks(url: BrokerUrl, seed: int, count: int) -> tuple[tuple[bytes, bytes], ...]:
    """Publish tasks with Celery through a proxy, and return the frames of each publish.

    The task's ids are placeholders, and so are the digits of its first argument.

    Args:
        url: A running broker; its queue `celery` is deleted afterwards.
        seed: Seed of names, sizes and arguments.
        count: Number of tasks.

    Raises:
        BenchError: Celery sent something that is not understood.
    """
    from celery import Celery

    source = random.Random(seed)
    with RecordingProxy(url) as proxy:
        app = Celery(
            broker=f"amqp://{proxy.url.user}:{proxy.url.password}@127.0.0.1:{proxy.url.port}//"
        )
        try:
            for _ in range(count):
                text = source.randbytes(_SIZES.draw(source)).hex()
                app.send_task(
                    source.choice(_NAMES),
                    args=["0" * FIELD_DIGITS, source.randrange(10**9)],
                    kwargs={"payload": text, "retry": bool(source.getrandbits(1))},
                    task_id=uuid_with_placeholder(source),
                )
            with app.connection() as connection:
                connection.default_channel.queue_delete("celery")
        finally:
            app.close()
    publishes = _group(proxy.frames())
    if len(publishes) != count:
        raise BenchError(f"Celery sent {len(publishes)} messages for {count} tasks")
    return publishes


def _group(frames: list[Frame]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the frames of each publish, on our channel, and its body."""
    found = []
    for at, each in enumerate(frames):
        if each.method_id != _PUBLISH:
            continue
        header, body = frames[at + 1], frames[at + 2]
        if header.kind != HEADER or body.kind != BODY:
            raise BenchError("Celery sent a task in another form than method, header, one body")
        octets = b"".join(
            frame(part.kind, PUBLISH_CHANNEL, part.payload) for part in (each, header, body)
        )
        found.append((octets, body.payload))
    return tuple(found)


def _try_missing() -> str:
    return "" if find_spec("celery") else "Celery is not installed: pip install celery"


ROWS: Final = (
    TrafficRow(
        "celery",
        "Celery tasks, the octets that Celery and kombu send: 4 publishers, no confirms, one write "
        "for each task; prefetch 16, an ack each",
        _CeleryRun(),
        TO_DELIVERY,
        unit="tasks/s",
        try_missing=_try_missing,
    ),
)
