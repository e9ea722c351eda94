"""Formats of the log: one event per line on standard error, as `key=value` text or as JSON."""

import json
import logging
import sys
import time

from amqp_server.base.log_fields import split_event
from amqp_server.base.log_text import record_text, without_controls


def format_time(record: logging.LogRecord) -> str:
    """Return the moment of an event in ISO 8601: UTC, to the millisecond, with the zone `Z`."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"


class KeyValueFormatter(logging.Formatter):
    """Formatter for `time=… level=… logger=… event key='value' …`, with a traceback below if any.

    Values that are text are quoted, and control characters are escaped: a queue's name may contain
    blanks, `=` and line feeds, and must not write fields or lines of its own into the log. The
    lines of a traceback are indented, since the text of an exception may have names in it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line; the time is UTC, in milliseconds."""
        line = (
            f"time={format_time(record)} level={record.levelname.lower()} "
            f"logger={record.name} {record_text(record)}"
        )
        if record.exc_info:
            line += _below(self.formatException(record.exc_info))
        if record.stack_info:
            line += _below(self.formatStack(record.stack_info))
        return line


class JsonFormatter(logging.Formatter):
    """Formatter for one JSON object per line, with the event's values as `fields`.

    A field comes from the format string in the source (`"queue expired queue=%s"`) and never from
    the text of a value, so a queue named `x level=error` cannot add a field. Control characters and
    all that is not ASCII are escaped.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line; a traceback becomes the member `exception`."""
        event, fields = split_event(record)
        line: dict[str, object] = {
            "time": format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": event,
            "message": record.getMessage(),
            "fields": fields,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return json.dumps(line, separators=(",", ":"))


def _below(text: str) -> str:
    return "".join(f"\n  {without_controls(line)}" for line in text.split("\n"))


def configure_logging(level: str, log_format: str = "text") -> None:
    """Write the log of the whole process to standard error.

    Args:
        level: Minimum level that is written, in lower case: debug, info, warning or error.
        log_format: `text` for `key=value` lines, `json` for one JSON object per line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
