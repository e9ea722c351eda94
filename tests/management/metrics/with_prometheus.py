"""Prometheus scrapes a live broker; the dashboards and alerts that people have show something.

`make check-tools` runs this, and the suite does not: Prometheus has to be installed, and scrapes
take seconds.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.amqp_client import AmqpClient, connect
from tests.management.conftest import ManagementOptions, ManagementServer
from tests.management.metrics.overview_dashboard import expressions
from tests.management.metrics.prometheus import PROGRAM, RULES, Prometheus, page, running_prometheus
from tests.management.metrics.traffic import declare_objects, follow_stream, use_objects
from tests.servers import RunningServer

pytestmark = pytest.mark.interop

MONITORING = RULES.parent
FAMILIES = ("queue_coarse_metrics", "queue_consumer_count", "queue_log_metrics", "group_metrics")
HOSTILE = (
    'quote"',
    "back\\slash",
    "back\\",
    "tab\tvertical\x0bescape\x1b",
    "null\x00",
    '"} 1 # {',
    "é 水 \U0001f600 \u2028\x85\u200b",
    "{{ $labels.queue }}",
    "x" * 255,
)
HOSTILE_GROUP = '"} 1 # \\'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagementServer]:
    path = tmp_path_factory.mktemp("broker") / "data"
    with RunningServer(path, *ManagementOptions) as running:
        running.start()
        yield ManagementServer(running)


@pytest.fixture(scope="module")
def alarmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagementServer]:
    """A broker that wants more free space than there is on any disk."""
    path = tmp_path_factory.mktemp("alarmed") / "data"
    with RunningServer(path, *ManagementOptions, "--disk-free-limit", "1024TiB") as running:
        running.start()
        yield ManagementServer(running)


@pytest.fixture(scope="module")
def client(server: ManagementServer) -> Iterator[AmqpClient]:
    address = server.server.address
    with connect(address) as client, connect(address) as follower, connect(address) as other:
        declare_objects(client)
        follow_stream(follower)
        follow_stream(other, HOSTILE_GROUP)
        use_objects(client)
        for name in HOSTILE:
            client.declare(name)
        yield client


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory,
    server: ManagementServer,
    alarmed: ManagementServer,
    client: AmqpClient,
) -> Iterator[Prometheus]:
    assert shutil.which(PROGRAM), "Prometheus not found; Debian: prometheus"
    directory = tmp_path_factory.mktemp("prometheus")
    pages = [
        page("amqp-server", server.metrics_url, "/metrics"),
        page("objects", server.metrics_url, "/metrics/per-object"),
        page("queues", server.metrics_url, "/metrics/detailed", family=FAMILIES),
        page("memory", server.metrics_url, "/metrics/memory-breakdown"),
        page("alarmed", alarmed.metrics_url, "/metrics"),
    ]
    with running_prometheus(directory, pages) as running:
        # Rates need two scrapes, with something between them.
        running.eventually('count_over_time(up{job="amqp-server"}[1m]) >= 2')
        use_objects(client)
        running.eventually(
            'increase(rabbitmq_global_messages_received_total{job="amqp-server"}[1m]) > 0'
        )
        yield running


def test_every_page_is_scraped_whole(prometheus: Prometheus) -> None:
    prometheus.eventually("count(up == 1) == 5")
    assert prometheus.values("up != 1") == []
    targets = prometheus.ask("targets")["activeTargets"]
    assert {target["lastError"] for target in targets} == {""}


def test_names_of_queues_come_through_as_they_are(prometheus: Prometheus) -> None:
    prometheus.eventually('rabbitmq_queue_messages_ready{job="objects"}')
    found = prometheus.values('rabbitmq_queue_messages_ready{job="objects"}')
    assert set(HOSTILE) <= {each["metric"]["queue"] for each in found}
    found = prometheus.eventually('amqp_server_detailed_group_lag{job="queues"}')
    assert HOSTILE_GROUP in {each["metric"]["group"] for each in found}


def test_all_of_rabbitmqs_overview_dashboard_shows_something(
    prometheus: Prometheus, server: ManagementServer
) -> None:
    (identity,) = prometheus.eventually('rabbitmq_identity_info{job="amqp-server"}')
    asked = expressions(identity["metric"]["rabbitmq_cluster"], "aggregated")
    assert len(asked) == 50
    assert not [each for each in asked if not prometheus.values(each)]
    numbers = [value["value"][1] for each in asked for value in prometheus.values(each)]
    assert "NaN" not in numbers


def test_our_own_dashboard_shows_something(prometheus: Prometheus) -> None:
    dashboard = json.loads((MONITORING / "grafana-log.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert len(asked) > 15
    for expression in asked:
        filled = re.sub(r'=~"\$\w+"', '=~".*"', expression).replace("$__rate_interval", "15s")
        prometheus.eventually(filled)


def test_all_alerts_are_evaluated_and_one_fires(prometheus: Prometheus) -> None:
    (fired,) = prometheus.eventually('ALERTS{alertname="DiskAlarm", alertstate="firing"}')
    assert fired["metric"]["job"] == "alarmed"
    rules: list[dict[str, Any]] = [
        rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]
    ]
    assert {(rule["health"], rule.get("lastError", "")) for rule in rules} == {("ok", "")}
    firing = {rule["name"] for rule in rules if rule["state"] == "firing"}
    assert "DiskAlarm" in firing
    assert "MemoryAlarm" not in firing


def test_every_alert_asks_for_metrics_that_exist(prometheus: Prometheus) -> None:
    names = set(prometheus.ask("label/__name__/values"))
    asked = set(re.findall(r"(?:rabbitmq|amqp_server)_\w+", RULES.read_text()))
    labels = {"rabbitmq_version"}
    assert asked - labels <= names


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "alerts-test.yml"),
    ],
    ids=" ".join,
)
def test_the_files_are_what_promtool_expects(arguments: tuple[str, ...]) -> None:
    tool = shutil.which("promtool")
    assert tool, "promtool not found; Debian: prometheus"
    ended = subprocess.run(
        [tool, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_pages_pass_promtools_lint(server: ManagementServer, client: AmqpClient) -> None:
    """It warns of RabbitMQ's names, which we keep; there must be no error."""
    text = server.get("/metrics/per-object", url=server.metrics_url, user=None).body
    ended = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    said = (ended.stdout + ended.stderr).decode()
    assert "error while" not in said, said
    ours = [line for line in said.splitlines() if line.startswith("amqp_server_")]
    assert not ours
