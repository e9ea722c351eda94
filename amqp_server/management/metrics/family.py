"""What a metric is: its name, its type, its help, and where its value stands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.management.metrics.object_sets import ObjectSet


class Kind(StrEnum):
    """Type of a metric in the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    UNTYPED = "untyped"


class Sum(Enum):
    """How the page of sums makes one number of all objects."""

    ABSENT = "the metric is not on the page of sums"
    ADDED = "the values of all objects are added"
    LARGEST = "the largest value of all objects"


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: Name without the prefix of its page, such as `queue_messages_ready`.
        kind: Type in the text.
        help: Help in the text.
        field: Where the value stands in an object's fields; dots lead into inner objects. Empty:
            no object ever has a value.
        scale: Factor from the field's unit to the metric's unit.
        sum: How the page of sums makes its number.
        total: Where the sum stands in the fields of the overview; empty: the objects are added.
            A total counts on when an object goes, so it never falls.
        default: Value of an object without the field; None: it has no line.
    """

    name: str
    kind: Kind
    help: str
    field: str = ""
    scale: float = 1
    sum: Sum = Sum.ADDED
    total: str = ""
    default: float | None = 0


@dataclass(frozen=True, slots=True)
class FamilyGroup:
    """Metrics of the same objects, which a scrape of chosen families names together.

    Attributes:
        name: Value of `family` in the address of the page `/metrics/detailed`.
        objects: The objects, with their labels.
        families: The metrics, in the order of the page.
        prefix: Begin of the names of its metrics.
        detailed_prefix: The same on the page `/metrics/detailed`; another one, so that a scrape
            of both pages has no metric twice.
        is_superset_of: Name of a group whose metrics are all in this one; where both were asked
            for, that group is left out.
    """

    name: str
    objects: ObjectSet
    families: tuple[Family, ...]
    prefix: str = "rabbitmq_"
    detailed_prefix: str = "rabbitmq_detailed_"
    is_superset_of: str = ""
