"""The page in Chromium: every view, every action, hostile names, accessibility by axe-core.

Not among the tests that run by themselves: it needs Chromium and packages from npm
(`make check-tools`).
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from amqp_server.control.client import ask
from appendlog.export_records import begin_record, end_record
from tests.management.conftest import ManagementServer

HERE = Path(__file__).parent
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "quote\"'`s & emoji \N{RABBIT FACE}",
    "a/b/c %2F ?#",
    "{{7*7}}",
    "x" * 255,
)


def connect(server: ManagementServer, name: str) -> pika.BlockingConnection:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", server.amqp_port, heartbeat=0, client_properties={"connection_name": name}
    )
    return pika.BlockingConnection(parameters)


def make_objects(server: ManagementServer, channel: BlockingChannel) -> None:
    """Make what the tests in the browser expect to find."""
    channel.confirm_delivery()
    for name in HOSTILE:
        channel.queue_declare(name, durable=True)
        if name != HOSTILE[-1]:
            channel.exchange_declare(name, "topic", durable=True)
            channel.queue_bind(name, name, name)
        else:
            channel.exchange_declare(name, "fanout", durable=True)
        user = server.put(
            "/api/users/" + quoted(name[:40]), {"password": "x", "tags": "management"}
        )
        assert user.status == 201
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
    channel.exchange_declare("dlx", "fanout", durable=True)
    channel.queue_declare("orders", durable=True, arguments={"x-dead-letter-exchange": "dlx"})
    channel.queue_declare("orders.dead", durable=True)
    channel.queue_bind("orders.dead", "dlx")
    for name in ("move.from", "move.to", "bulk.1", "bulk.2", "bulk.3", "shovel.from", "shovel.to"):
        channel.queue_declare(name, durable=True)
    for number in range(20):
        publish(channel, "orders", f"order {number}")
    for number in range(60):
        publish(channel, "move.from", f"move {number}")
    publish(channel, "bulk.1", "a")
    delayed = {"x-delayed-type": "direct"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=delayed)
    channel.queue_bind("orders", "later", "k")
    for number, hours in enumerate((2, 1, 3)):
        late = pika.BasicProperties(delivery_mode=2, headers={"x-delay": hours * 3_600_000})
        channel.basic_publish("later", "k", f"<b>{number}".encode(), late)
    note_export(server)
    # One virtual host is all that this user may see; others have one more.
    server.put("/api/vhosts/other")
    server.add_user("one", "management", vhosts=["/"])


def note_export(server: ManagementServer) -> None:
    """Note an export, as `amqp-server export` does at its end."""
    asked = {"vhost": "/", "queue": "orders", "after": "", "limit": 1}
    incarnation = ask(server.storage_path, "queues.stats", **asked)["queues"][0]["incarnation"]
    settings = {"vhost": "/", "queues": ["orders"], "to": "delta", "include": "all"}
    record = begin_record(server.storage_path, "/lake/<b>", settings, time.time_ns())
    queue = {"vhost": "/", "queue": "orders", "incarnation": incarnation}
    failed = {"vhost": "/", "queue": HOSTILE[0], "incarnation": "", "error": "an error <b>"}
    rows = [{**queue, "status": "exported", "end": 3, "rows": 3}, {**failed, "status": "failed"}]
    end_record(server.storage_path, record, rows, 0, time.time_ns())


def publish(channel: BlockingChannel, queue: str, body: str) -> None:
    headers = {"customer": 7, "<b>": "<img src=x onerror=alert(1)>"}
    properties = pika.BasicProperties(delivery_mode=2, headers=headers)
    channel.basic_publish("", queue, body.encode(), properties)


def quoted(name: str) -> str:
    return quote(name, safe="")


@pytest.mark.timeout(1200)
def test_every_view_and_action(management_server: ManagementServer, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "Chromium is not installed: apt-get install chromium"
    definitions = tmp_path / "definitions.json"
    queue = {
        "name": "imported",
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "arguments": {},
    }
    definitions.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}))
    victim = connect(management_server, "victim")
    with connect(management_server, "holder <b>") as holder:
        channel = holder.channel()
        make_objects(management_server, channel)
        # Two dead letters, and three messages that are held.
        for _ in range(2):
            method = channel.basic_get("orders")[0]
            assert method is not None
            channel.basic_nack(method.delivery_tag, requeue=False)
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume("orders", lambda *_: None)
        holder.process_data_events(0.0)
        environment = os.environ | {
            "PAGE_URL": management_server.url,
            "CHROMIUM": chromium,
            "DEFINITIONS_FILE": str(definitions),
            "PYTHON": sys.executable,
            "STORAGE_PATH": str(management_server.storage_path),
        }
        done = subprocess.run(
            ["node", "--test", str(HERE / "in_chromium.test.mjs")],
            env=environment,
            capture_output=True,
            text=True,
            timeout=1140,
            check=False,
            cwd=HERE.parents[2],
        )
    print(done.stdout)
    with pytest.raises(pika.exceptions.AMQPError):
        victim.channel()
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_bench_measures_the_page(tmp_path: Path) -> None:
    report = tmp_path / "page.json"
    options = ["--queues", "200", "--rounds", "1", "--json", str(report)]
    subprocess.run([sys.executable, "-m", "bench", "page", *options], check=True, timeout=120)

    found = json.loads(report.read_text())
    assert [row["what"] for row in found["rows"]] == ["first rows", "filter"]
    assert all(0 < row["seconds"] < 60 for row in found["rows"])
