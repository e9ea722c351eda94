"""Selects fields of a JSON object by names with dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Sequence[tuple[str, ...]]


def select_columns(value: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Return an object with these fields only; unknown ones are left out.

    Args:
        value: Object; not changed.
        columns: Names of fields, each as the parts between its dots; none: all fields.
    """
    if not columns:
        return dict(value)
    found: dict[str, Any] = {}
    for column in columns:
        _copy(value, column, found)
    return found


def value_at(value: Mapping[str, Any], path: Sequence[str]) -> Any:  # noqa: ANN401 - a JSON value
    """Return a value inside objects; None if it is not there."""
    here: Any = value
    for part in path:
        if not isinstance(here, Mapping) or part not in here:
            return None
        here = here[part]
    return here


def _copy(value: Mapping[str, Any], column: Sequence[str], into: dict[str, Any]) -> None:
    name, rest = column[0], column[1:]
    if name not in value:
        return
    if not rest:
        into[name] = value[name]
    elif isinstance(value[name], Mapping):
        inner = into.setdefault(name, {})
        if inner is not value[name]:
            _copy(value[name], rest, inner)
