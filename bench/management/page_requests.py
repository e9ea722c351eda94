"""What an open page asks the API, and how often.

The paths and times are those of `amqp_server/management/page`; a test compares them.
"""

from dataclasses import dataclass
from typing import Final

EVERY_SECONDS: Final = 5.0
"""Time between two requests of a path."""

HEALTH_SECONDS: Final = 10.0
"""The same for the check of the alarms."""

VHOSTS_SECONDS: Final = 15.0
"""The same for the names of the virtual hosts."""

SHARE: Final = 10
"""A page waits at least this many times as long as the last answer took."""

QUEUE_COLUMNS: Final = (
    *("name", "vhost", "type", "state", "durable", "auto_delete", "exclusive", "arguments"),
    *("policy", "effective_policy_definition", "messages", "messages_details.rate"),
    *("messages_ready", "messages_unacknowledged", "consumers", "consumer_capacity"),
    *("consumer_utilisation", "message_bytes", "message_stats.publish_details.rate"),
    "message_stats.publish_refused_details.rate",
    *("message_stats.deliver_get_details.rate", "message_stats.deliver_no_ack_details.rate"),
    *("message_stats.get_no_ack_details.rate", "message_stats.ack_details.rate"),
    *("message_stats.redeliver_details.rate", "idle_since", "log_bytes", "oldest_message_age"),
)
"""Fields that the lists of queues need."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A path that is asked again and again.

    Attributes:
        kind: Under what the latencies are reported.
        path: Path and query.
        every_seconds: Time between two requests; 0 asks once.
        share: A request waits at least this many times as long as the one before it took; 0 for a
            fixed rate.
    """

    kind: str
    path: str
    every_seconds: float
    share: int = 0


def _page_poll(path: str, every_seconds: float = EVERY_SECONDS, kind: str = "page") -> Poll:
    return Poll(kind, f"/api/{path}", every_seconds, SHARE)


_SHELL: Final = (
    _page_poll("overview?columns=object_totals,cluster_name,product_version,rabbitmq_version,node"),
    _page_poll("health/checks/alarms", HEALTH_SECONDS),
    _page_poll("vhosts?columns=name", VHOSTS_SECONDS),
)
_QUEUES: Final = _page_poll(f"queues?columns={','.join(QUEUE_COLUMNS)}", kind="page's queues")

OVERVIEW_PAGE: Final = (
    *_SHELL,
    _page_poll("overview?msg_rates_age=600&msg_rates_incr=5&lengths_age=600&lengths_incr=5"),
    _page_poll("nodes"),
    _page_poll("health/checks/alarms", HEALTH_SECONDS),
    _QUEUES,
)
"""What a page asks that shows the overview."""

QUEUES_PAGE: Final = (*_SHELL, _QUEUES)
"""What a page asks that shows the list of queues."""

WHOLE_LIST: Final = Poll("list", "/api/queues", 1.0)
"""A tool that asks for all queues each second."""

SCRAPE: Final = Poll("metrics", "/metrics", 5.0)
"""Prometheus."""
