"""What `prometheus_client` writes: who the broker is, and its histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import generate_latest
from prometheus_client.core import (
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    UnknownMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from amqp_server.management.resources.erlang import ERLANG_VERSION

if TYPE_CHECKING:
    from amqp_server.management.metrics.readable_mirror import ReadableMirror


BUILD_LABELS: Final = (
    "rabbitmq_version",
    "prometheus_plugin_version",
    "prometheus_client_version",
    "erlang_version",
)
_LIBRARY_VERSION: Final = version("prometheus_client")
IDENTITY_LABELS: Final = (
    "rabbitmq_node",
    "rabbitmq_cluster",
    "rabbitmq_cluster_permanent_id",
    "rabbitmq_endpoint",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Names of the broker.

    Attributes:
        node: Name of the node, such as `rabbit@host`.
        version: RabbitMQ's version, as the HTTP API shows it.
    """

    node: str = "rabbit@localhost"
    version: str = ""


class IdentityCollector(Collector):
    """Who the broker is; each page has it once, because dashboards join by it.

    Args:
        mirror: State of the broker.
        identity: Names of the broker.
        endpoint: Label `rabbitmq_endpoint`: by it dashboards choose one of several scraped pages.
    """

    def __init__(self, mirror: ReadableMirror, identity: Identity, endpoint: str) -> None:
        self._mirror = mirror
        self._identity = identity
        self._endpoint = endpoint

    def collect(self) -> Iterator[Metric]:
        """Return the versions and the names of the broker."""
        shown, node = self._identity.version, self._identity.node
        build = UnknownMetricFamily(
            "rabbitmq_build_info", "RabbitMQ & Erlang/OTP version info", labels=BUILD_LABELS
        )
        build.add_metric([shown, shown, _LIBRARY_VERSION, ERLANG_VERSION], 1)
        yield build
        identity = UnknownMetricFamily(
            "rabbitmq_identity_info",
            "RabbitMQ node & cluster identity info",
            labels=IDENTITY_LABELS,
        )
        # A cluster without a name of its own has that of its node, as in RabbitMQ.
        cluster = str(self._mirror.overview.fields.get("cluster_name") or node)
        cluster_id = str(self._mirror.overview.fields.get("cluster_id") or "")
        identity.add_metric([node, cluster, cluster_id, self._endpoint], 1)
        yield identity


class HistogramCollector(Collector):
    """Sizes of messages, and durations of disk syncs and of turns of the event loop.

    Args:
        mirror: State of the broker.
    """

    def __init__(self, mirror: ReadableMirror) -> None:
        self._mirror = mirror

    def collect(self) -> Iterator[Metric]:
        """Return the histograms of which the broker tells anything."""
        sizes = HistogramMetricFamily(
            "rabbitmq_message_size_bytes",
            "Size of messages received from publishers",
            labels=("protocol",),
        )
        _add(sizes, ["amqp091"], self._mirror.overview.fields.get("message_size_bytes"))
        yield sizes
        node = self._mirror.node.fields
        for name, help_text, field in (
            ("amqp_server_fsync_seconds", "Duration of syncs of log files", "fsync_seconds"),
            (
                "amqp_server_loop_turn_seconds",
                "Duration of event loop turns",
                "turn_seconds",
            ),
        ):
            durations = HistogramMetricFamily(name, help_text)
            _add(durations, [], node.get(field))
            yield durations
        started = GaugeMetricFamily(
            "process_start_time_seconds", "Start time of the broker since 1970 in seconds"
        )
        started.add_metric([], node.get("started_seconds", 0))
        yield started


def histogram_text(mirror: ReadableMirror) -> Iterator[str]:
    """Return the text of the histograms, in one piece."""
    yield generate_latest(HistogramCollector(mirror)).decode("utf-8")


def identity_text(mirror: ReadableMirror, identity: Identity, endpoint: str) -> Iterator[str]:
    """Return the text of who the broker is, in one piece; see `IdentityCollector`."""
    yield generate_latest(IdentityCollector(mirror, identity, endpoint)).decode("utf-8")


def _add(
    family: HistogramMetricFamily, labels: Sequence[str], histogram: Mapping[str, Any] | None
) -> None:
    if not histogram:
        return
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, in_bucket in zip(
        [*map(floatToGoString, histogram["bounds"]), "+Inf"], histogram["counts"], strict=True
    ):
        count += in_bucket
        buckets.append((bound, count))
    family.add_metric(labels, buckets, histogram["sum"])
