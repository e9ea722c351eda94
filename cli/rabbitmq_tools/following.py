"""Verbs of the server's log and its events."""

from __future__ import annotations

import json
import re
import sys

from cli.rabbitmq_tools.failures import UsageError
from cli.rabbitmq_tools.output import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_REPORT_LINES_MAX = 128
"""Most lines in one report of the server."""
_TAIL_LINES_MAX = 1000
_FOR_EVER = 10.0**8


def log_location(call: Call) -> Message:
    """Say where the log is: the server writes it to standard error."""
    call.banner(f"Log file location(s) on node {call.node} ...")
    call.ask("probe")
    return Message("<stderr>")


def log_tail(call: Call) -> Message:
    """Show the last lines of the log."""
    given = call.options.get("number", "50")
    if not given.isdecimal() or not 0 < int(given) <= _TAIL_LINES_MAX:
        raise UsageError(f"--number is {given}, must be 1 to {_TAIL_LINES_MAX}")
    call.banner(f"Last {given} log lines on node {call.node} ...")
    found: list[dict[str, Any]] = []
    for report in call.server.parts("log.follow", {"last": int(given)}):
        found += report["lines"]
        if len(found) >= int(given) or len(report["lines"]) < _REPORT_LINES_MAX:
            break
    call.server.close()
    return Message("\n".join(map(_line, found)), {"lines": found})


def log_tail_stream(call: Call) -> None:
    """Show what is logged from now on."""
    seconds = _duration(call)
    if call.has_notes:
        shown = "infinity" if seconds is None else f"{seconds:.0f}"
        call.banner(f"Streaming logs from node {call.node} for {shown} seconds ...")
    for report in call.server.follow("log.follow", {"last": 0}, seconds or _FOR_EVER):
        for line in report["lines"]:
            sys.stdout.write(_line(line) + "\n")
        sys.stdout.flush()


def consume_event_stream(call: Call) -> None:
    """Show what happens from now on, an object of JSON in a line."""
    seconds = _duration(call)
    try:
        pattern = re.compile(call.options.get("pattern", ""))
    except re.error as error:
        raise UsageError(f"the pattern is no regular expression: {error}") from error
    for report in call.server.follow("events.follow", {}, seconds or _FOR_EVER):
        for event in report["events"]:
            if pattern.search(event["event"]):
                shown = {**event.pop("details", {}), **event}
                sys.stdout.write(json.dumps(shown, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def _line(line: dict[str, Any]) -> str:
    text = str(line["message"]).replace("\n", "\\n")
    return f"{line['time']} [{line['level']}] {line['logger']} {text}"


def _duration(call: Call) -> float | None:
    given = call.options.get("duration", "infinity")
    if given == "infinity":
        return None
    if not given.isdecimal() or int(given) == 0:
        raise UsageError(f"--duration is {given}, must be a number of seconds above 0")
    return float(given)
