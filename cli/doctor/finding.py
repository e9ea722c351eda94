"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How good something is, from good to bad."""

    OK = "ok"
    """As a server needs it."""
    UNKNOWN = "unknown"
    """This system does not tell."""
    WARNING = "warning"
    """A server starts; it will be slow, small, or in danger."""
    ERROR = "error"
    """A server does not start, or takes no messages."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check.

    Attributes:
        state: How good it is.
        subject: What was checked, in one or two words.
        text: What was found, with its numbers; one line.
        advice: What to change; empty if nothing.
    """

    state: State
    subject: str
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Finding:
    """Return that something is as a server needs it."""
    return Finding(State.OK, subject, text)


def unknown(subject: str, text: str) -> Finding:
    """Return that this system does not tell."""
    return Finding(State.UNKNOWN, subject, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """Return what makes a server slow, small or endangered, and what to change."""
    return Finding(State.WARNING, subject, text, advice)


def error(subject: str, text: str, advice: str) -> Finding:
    """Return what keeps a server from starting, or from taking messages, and what to change."""
    return Finding(State.ERROR, subject, text, advice)
