"""Work that may take long, as a generator of steps with a result.

Between two steps other clients are served, and any state may change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

ResultT = TypeVar("ResultT")
Steps: TypeAlias = "Generator[None, None, ResultT]"
"""Takes a step each time it is advanced, and returns the result at the end."""

STEP_VISITS: Final = 1024
"""Bindings, exchanges or nodes of binding keys that are looked at in one step, half a ms or so."""


def result_of(steps: Steps[ResultT]) -> ResultT:
    """Take all steps at once; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result
