"""Runs the installed Prometheus, as an operator would, for a test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from bench.rabbitmq import free_ports
from tests.conformance.polling import eventually
from tests.limits import HANG_SECONDS
from tests.management.metrics.overview_dashboard import NAMESPACE

PROGRAM = "/usr/bin/prometheus"
RULES = Path(__file__).resolve().parents[3] / "docs" / "monitoring" / "alerts.yml"
ResultT = TypeVar("ResultT")


class Prometheus:
    """A running Prometheus.

    Args:
        url: Where it serves its own API.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, what: str, **parameters: str) -> Any:  # noqa: ANN401 - JSON of its API
        """Return the data of an answer of its API."""
        with urlopen(
            f"{self._url}/api/v1/{what}?{urlencode(parameters)}", timeout=HANG_SECONDS
        ) as reply:
            return json.load(reply)["data"]

    def values(self, expression: str) -> list[dict[str, Any]]:
        """Return the labels and values of an expression now."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def eventually(self, expression: str) -> list[dict[str, Any]]:
        """Return the values of an expression as soon as there are any."""
        return eventually(lambda: self.values(expression), seconds_max=HANG_SECONDS)


def page(job: str, address: str, path: str, **fields: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of a page to scrape each second.

    Args:
        job: Name of the job.
        address: URL of the port of metrics.
        path: Path of the page.
        fields: Query of the page.
    """
    return {
        "job_name": job,
        "metrics_path": path,
        "params": dict(fields),
        "static_configs": [
            {"targets": [urlsplit(address).netloc], "labels": {"namespace": NAMESPACE}}
        ],
    }


@contextmanager
def running_prometheus(
    directory: Path, pages: Sequence[Mapping[str, Any]], rules: Path = RULES
) -> Iterator[Prometheus]:
    """Run Prometheus with its files in a directory, until the end of the context.

    Args:
        directory: Existing directory.
        pages: What it scrapes, from `page`.
        rules: File of alert rules.
    """
    (port,) = free_ports(1)
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": list(pages),
    }
    # JSON is YAML.
    (directory / "prometheus.yml").write_text(json.dumps(configuration))
    command = [
        PROGRAM,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (directory / "prometheus.txt").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        eventually(lambda: _is_ready(process, prometheus), seconds_max=HANG_SECONDS)
        yield prometheus
    finally:
        process.terminate()
        try:
            process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(process: subprocess.Popen[bytes], prometheus: Prometheus) -> bool:
    assert process.poll() is None, "Prometheus has ended: see prometheus.txt"
    return _answers(lambda: prometheus.ask("status/runtimeinfo"))


def _answers(look: Callable[[], object]) -> bool:
    try:
        look()
    except OSError:
        return False
    return True
