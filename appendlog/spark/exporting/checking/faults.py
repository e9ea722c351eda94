"""What can be wrong with an output."""

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["loss", "corrupt"]
"""Rows are gone; or something is there that is not what it should be."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        kind: Of the two.
        text: What and where, one line.
        path: Of the file in the store; None when it is not about one.
        start: First offset that is concerned; None when that is not known.
        end: End of these offsets, exclusive.
    """

    kind: FaultKind
    text: str
    path: str | None = None
    start: int | None = None
    end: int | None = None
