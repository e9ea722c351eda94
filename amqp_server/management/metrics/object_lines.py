"""The text of a group of metrics: a line for each object, or one line for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from amqp_server.management.metrics.exposition import (
    header,
    label_text,
    value_reader,
    value_text,
)
from amqp_server.management.metrics.family import Sum

if TYPE_CHECKING:
    from amqp_server.management.metrics.family import Family, FamilyGroup
    from amqp_server.management.metrics.object_filter import ObjectFilter
    from amqp_server.management.metrics.object_sets import Fields, Labelled
    from amqp_server.management.metrics.readable_mirror import ReadableMirror

OBJECTS_IN_PIECE: Final = 250
"""Objects between two places where the caller may pause: some tenths of a millisecond."""


def object_lines(
    group: FamilyGroup, prefix: str, mirror: ReadableMirror, wanted: ObjectFilter
) -> Iterator[str]:
    """Return the text of a group in pieces, some of them empty, with a line for each object.

    Raises:
        InvalidFilterError: The search for queues takes too long.
    """
    labels: list[str] = []
    objects: list[Fields] = []
    for found in _paused(group, mirror, wanted):
        if found is None:
            yield ""
        else:
            labels.append(label_text(group.objects.labels, found[0]))
            objects.append(found[1])
    for family in group.families:
        name = prefix + family.name
        read = value_reader(family.field, family.scale)
        yield header(name, family.kind, family.help)
        for at in range(0, len(objects), OBJECTS_IN_PIECE):
            end = at + OBJECTS_IN_PIECE
            lines: list[str] = []
            for label, fields in zip(labels[at:end], objects[at:end], strict=True):
                value = read(fields)
                if value is None:
                    value = family.default
                if value is not None:
                    lines.append(f"{name}{label} {value_text(value)}\n")
            yield "".join(lines)


def sum_lines(group: FamilyGroup, mirror: ReadableMirror, wanted: ObjectFilter) -> Iterator[str]:
    """Return the text of a group in pieces, some of them empty, with one line for each metric."""
    families = [family for family in group.families if family.sum is not Sum.ABSENT]
    objects: list[Fields] | None = None
    for family in families:
        value = value_reader(family.total)(mirror.overview.fields) if family.total else None
        if value is None and family.field:
            if objects is None:
                objects = []
                for found in _paused(group, mirror, wanted):
                    if found is None:
                        yield ""
                    else:
                        objects.append(found[1])
            value = 0
            for at in range(0, len(objects), OBJECTS_IN_PIECE):
                value = _summed(family, value, objects[at : at + OBJECTS_IN_PIECE])
                yield ""
        name = group.prefix + family.name
        yield f"{header(name, family.kind, family.help)}{name} {value_text(value or 0)}\n"


def _summed(family: Family, value: float, objects: list[Fields]) -> float:
    """Return the sum of a metric, or its largest value, with some more objects."""
    read = value_reader(family.field, family.scale)
    values = [read(fields) or 0 for fields in objects]
    return max(value, *values) if family.sum is Sum.LARGEST else value + sum(values)


def _paused(
    group: FamilyGroup, mirror: ReadableMirror, wanted: ObjectFilter
) -> Iterator[Labelled | None]:
    """Return the objects of a group, and None where the caller may pause."""
    # The search in one name may take milliseconds.
    step = 1 if wanted.is_searching else OBJECTS_IN_PIECE
    for at, each in enumerate(group.objects.find(mirror, wanted)):
        if not at % step:
            yield None
        if each is not None:
            yield each
