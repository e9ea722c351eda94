"""The text of a group of metrics: a line for each object, or one line for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

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
    from amqp_server.management.metrics.object_sets import Fields
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
    for at, found in enumerate(group.objects.find(mirror, wanted)):
        if not at % OBJECTS_IN_PIECE:
            yield ""
        if found is not None:
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
    totals = mirror.overview.fields
    values: dict[Family, Any] = {}
    added: list[tuple[Family, Any]] = []
    for family in families:
        total = value_reader(family.total, family.scale)(totals) if family.total else None
        values[family] = total or 0
        if total is None:
            added.append((family, value_reader(family.field, family.scale)))
    if added:
        for at, found in enumerate(group.objects.find(mirror, wanted)):
            if not at % OBJECTS_IN_PIECE:
                yield ""
            if found is not None:
                _add(found[1], added, values)
    for family in families:
        name = group.prefix + family.name
        yield f"{header(name, family.kind, family.help)}{name} {value_text(values[family])}\n"


def _add(fields: Fields, added: list[tuple[Family, Any]], values: dict[Family, Any]) -> None:
    for family, read in added:
        value = read(fields)
        if not value:
            continue
        if family.sum is Sum.LARGEST:
            values[family] = max(values[family], value)
        else:
            values[family] += value
