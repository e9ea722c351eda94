"""Rates and past values of counters, as RabbitMQ's `x_details` show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from amqp_server.management.http.answers import ApiError
from amqp_server.management.mirror.fields import STATS

if TYPE_CHECKING:
    from amqp_server.management.mirror import Row

SAMPLES_MAX: Final = 500
"""Samples that a client may ask for, of each counter."""
_STILL: Final[dict[str, Any]] = {"rate": 0.0}

MESSAGE_STATS: Final = STATS[:-3]
"""Counters of the whole server and of a virtual host: not those of exchanges and queues alone."""
CHANNEL_STATS: Final = MESSAGE_STATS[:-2]
QUEUE_STATS: Final = (
    "publish",
    "publish_refused",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "deliver_get",
    "redeliver",
    "ack",
    "get_empty",
)
EXCHANGE_STATS: Final = ("publish_in", "publish_out")
DEPTHS: Final = ("messages", "messages_ready", "messages_unacknowledged")
OCTETS: Final = ("recv_oct", "send_oct")


@dataclass(frozen=True, slots=True)
class Range:
    """Which past values a client asks for.

    Attributes:
        age_seconds: Age of the oldest.
        incr_seconds: Time between two of them.
    """

    age_seconds: int
    incr_seconds: int


@dataclass(frozen=True, slots=True)
class Ranges:
    """Which past values a client asks for, of each family of counters; None: only the rate.

    Attributes:
        lengths: Of numbers of messages.
        msg_rates: Of message statistics and of objects that came and went.
        data_rates: Of octets of connections.
        node_stats: Of the node.
    """

    lengths: Range | None = None
    msg_rates: Range | None = None
    data_rates: Range | None = None
    node_stats: Range | None = None


def parse_ranges(query: Mapping[str, str]) -> Ranges:
    """Return which past values the fields of a query ask for.

    Raises:
        ApiError: More than `SAMPLES_MAX` samples, or a time that is not above 0.
    """
    return Ranges(
        lengths=_parse(query, "lengths_age", "lengths_incr"),
        msg_rates=_parse(query, "msg_rates_age", "msg_rates_incr"),
        data_rates=_parse(query, "data_rates_age", "data_rates_incr"),
        node_stats=_parse(query, "node_stats_age", "node_stats_incr"),
    )


def _parse(query: Mapping[str, str], age_field: str, incr_field: str) -> Range | None:
    try:
        age, incr = int(query[age_field]), int(query[incr_field])
    except (KeyError, ValueError):
        return None
    if age <= 0 or incr <= 0 or age / incr > SAMPLES_MAX:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "bad_request",
            f"Invalid range parameters: age {age}, incr {incr}",
        )
    return Range(age, incr)


def details(row: Row, counter: str, wanted: Range | None) -> dict[str, Any]:
    """Return the rate of a counter, with its past values if they are wanted."""
    if wanted is None:
        rate = row.rate(counter)
        return {"rate": rate} if rate else _STILL
    found = row.samples(counter, wanted.age_seconds, wanted.incr_seconds)
    shown = {
        "rate": found.rate,
        "samples": [{"sample": value, "timestamp": at} for at, value in found.samples],
        "avg_rate": found.avg_rate,
        "avg": found.avg,
        # Not RabbitMQ's: its zeros before an object began look like zeros that were measured.
        "began": row.first_seconds * 1000,
    }
    if gaps := row.gaps(found.samples[-1][0] // 1000):
        # Ours, too: samples in between repeat the value before, as if it had been measured.
        shown["gaps"] = [[begin * 1000, end * 1000] for begin, end in gaps]
    return shown


def add_counters(
    shown: dict[str, Any], row: Row, names: Iterable[str], wanted: Range | None
) -> None:
    """Add counters, which are fields of an object, with their details."""
    fields = row.fields
    for name in names:
        shown[name] = fields.get(name, 0)
        shown[f"{name}_details"] = details(row, name, wanted)


def add_message_stats(
    shown: dict[str, Any], row: Row, names: Iterable[str], wanted: Range | None
) -> None:
    """Add `message_stats` with details; while nothing has happened there is none."""
    stats = row.fields.get("message_stats")
    if not stats:
        shown.pop("message_stats", None)
        return
    found: dict[str, Any] = {}
    for name in names:
        found[name] = stats.get(name, 0)
        found[f"{name}_details"] = details(row, f"message_stats.{name}", wanted)
    shown["message_stats"] = found
