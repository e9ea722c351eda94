"""Flower's page of the broker beside a Celery worker, unmodified. Run by `make check-tools`."""

import html
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.rabbitmq import free_ports
from tests.interop.celery_tasks import add
from tests.interop.celery_tasks import app as celery_app
from tests.interop.celery_worker import CeleryWorker
from tests.limits import HANG_SECONDS
from tests.management.tools.api import Api
from tests.management.tools.walk import wait_until_none
from tests.servers import REPOSITORY

QUEUE = "flowered"
TASKS = 3


def test_flower_shows_the_queues_of_a_worker(api: Api, tmp_path: Path) -> None:
    url = f"amqp://guest:guest@{api.host}:{api.amqp_port}//"
    celery_app.conf.broker_url = url
    with ExitStack() as running:
        running.callback(celery_app.close)
        worker = running.enter_context(CeleryWorker(celery_app, url, QUEUE))
        worker.wait_until_ready()
        inspected = celery_app.control.inspect(timeout=HANG_SECONDS, limit=1).active_queues()
        assert [queue["name"] for queue in inspected[worker.name]] == [QUEUE]
        assert set(celery_app.control.inspect(timeout=HANG_SECONDS, limit=1).stats()) == {
            worker.name
        }
        results = [add.apply_async((number, 1), queue=QUEUE) for number in range(TASKS)]
        assert [result.get(timeout=HANG_SECONDS) for result in results] == [1, 2, 3]
        base = running.enter_context(flower(api, url, tmp_path / "flower"))

        wait_until_none(lambda: [] if QUEUE in broker_page(base) else ["the queue"])

        cells = re.findall(r"<td[^>]*>\s*(.*?)\s*</td>", broker_page(base), re.DOTALL)
        row = [html.unescape(cell) for cell in cells]
        # Name, messages, unacknowledged, ready, consumers, idle since.
        assert row[row.index(QUEUE) :][:5] == [QUEUE, "0", "0", "0", "1"]
        running.callback(celery_app.backend.result_consumer.stop)


@contextmanager
def flower(api: Api, url: str, output: Path) -> Iterator[str]:
    """Run Flower; give its address when it answers."""
    (port,) = free_ports(1)
    broker_api = f"http://guest:guest@{api.host}:{api.port}/api/"
    options = [f"--port={port}", "--address=127.0.0.1", f"--broker-api={broker_api}"]
    command = ["celery", "-A", "tests.interop.celery_tasks", "flower", *options]
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=REPOSITORY,
            env=os.environ | {"CELERY_BROKER_URL": url, "CELERY_QUEUE": QUEUE},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    base = f"http://127.0.0.1:{port}"
    try:
        wait_until_none(lambda: [] if broker_page(base) else [output.read_text()])
        yield base
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)


def broker_page(base: str) -> str:
    """Return Flower's page of the broker; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"{base}/broker", timeout=HANG_SECONDS) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return ""
