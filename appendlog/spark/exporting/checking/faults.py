"""Faults of an output."""

from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["loss", "corrupt"]
"""Kind of a fault: rows are gone, or something is damaged."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of an output.

    Attributes:
        kind: Kind of the fault.
        text: What is wrong and where, one line.
        path: Path of the file in the store; None if the fault is in no file.
        start: First offset that is affected; None if it is unknown.
        end: End of these offsets, exclusive; None likewise.
    """

    kind: FaultKind
    text: str
    path: str | None = None
    start: int | None = None
    end: int | None = None
