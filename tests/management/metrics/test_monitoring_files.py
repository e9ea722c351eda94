"""Our dashboard and alert rules ask for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from amqp_server.management.metrics.pages import CHOSEN_BY_NAME
from tests.management.metrics.metric_names import metric_names

MONITORING = Path(__file__).resolve().parents[3] / "docs" / "monitoring"
NAME = re.compile(r"\b(?:rabbitmq|amqp_server)_\w+")
LABELS = {"rabbitmq_version"}


@pytest.mark.parametrize("name", ["alerts.yml", "alerts-test.yml", "grafana-log.json"])
def test_every_metric_that_is_asked_for_exists(name: str) -> None:
    asked = set(NAME.findall((MONITORING / name).read_text())) - LABELS
    assert asked
    assert asked <= metric_names()


def test_every_family_that_is_scraped_exists() -> None:
    text = (MONITORING / "prometheus.yml").read_text()
    families = re.search(r"family: \[(.*)\]", text)
    assert families
    assert set(families[1].split(", ")) <= set(CHOSEN_BY_NAME)


def test_every_family_is_on_the_page_of_the_documentation() -> None:
    page = (MONITORING.parent / "metrics.md").read_text()
    assert [name for name in CHOSEN_BY_NAME if f"`{name}`" not in page] == []


def test_every_metric_of_ours_is_on_the_page_of_the_documentation() -> None:
    page = (MONITORING.parent / "metrics.md").read_text()
    ours = [
        name
        for name in metric_names()
        if name.startswith("amqp_server_")
        and not name.startswith("amqp_server_detailed_")
        and not name.endswith(("_bucket", "_count", "_sum"))
    ]
    assert [name for name in ours if f"`{name}`" not in page] == []


def test_every_panel_of_the_dashboard_has_a_place_of_its_own() -> None:
    dashboard = json.loads((MONITORING / "grafana-log.json").read_text())
    places = [tuple(panel["gridPos"].items()) for panel in dashboard["panels"]]
    assert len(places) == len(set(places))
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))


def test_every_alert_is_on_the_page_of_the_documentation() -> None:
    alerts = re.findall(r"- alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    page = (MONITORING.parent / "metrics.md").read_text()
    assert [alert for alert in alerts if f"`{alert}`" not in page] == []
