"""Prometheus' text format, version 0.0.4, for metrics of very many objects.

`prometheus_client` writes the metrics of the broker as a whole. It makes an object for each line
and sorts its labels, which takes seconds for 10,000 queues. The labels of an object are the same
in all of its lines, so here they are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from amqp_server.management.metrics.family import Kind
    from amqp_server.management.metrics.object_sets import Fields

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_NOTHING: Final[dict[str, Any]] = {}


def header(name: str, kind: Kind, help_text: str) -> str:
    """Return the two lines before the values of a metric."""
    escaped = help_text.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind.value}\n"


def label_text(names: Sequence[str], values: Iterable[str]) -> str:
    """Return the labels of an object in braces; empty if it has none."""
    pairs = [f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def escaped(value: str) -> str:
    r"""Return a label's value as it stands between quotes.

    Octets that are no UTF-8, which the mirror has as surrogates, show as `\xff`: Prometheus would
    refuse the whole page.
    """
    if not value.isprintable():
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def value_reader(field: str, scale: float = 1) -> Callable[[Fields], Any]:
    """Return a function from an object's fields to a value; None where there is none.

    Args:
        field: Where the value stands; one dot leads into an inner object. Empty: always 0.
        scale: Factor for a value that is not in an inner object.
    """
    outer, _, inner = field.partition(".")
    if not field:
        return lambda _: 0
    if inner:
        return lambda fields: (fields.get(outer) or _NOTHING).get(inner)
    if scale != 1:
        return lambda fields: None if (value := fields.get(outer)) is None else value * scale
    return lambda fields: fields.get(outer)


def value_text(value: Any) -> str:  # noqa: ANN401 - a number of the broker, or anything wrong
    """Return a value as the format has it; anything but a number is `NaN`."""
    if value.__class__ is int:
        return str(value)
    if isinstance(value, (bool, int, float)):
        return str(floatToGoString(value))  # type: ignore[no-untyped-call]
    return "NaN"
