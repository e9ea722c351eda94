"""What the log looks like: one event a line on standard error, as `key=value`."""

import logging
import sys
import time

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROLS |= {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class KeyValueFormatter(logging.Formatter):
    """Writes `time=… level=… logger=… event key=value …`, with a traceback below when there is one.

    Control characters of the event are escaped: a queue may be named with a line feed, and must not
    be able to write lines of its own into the log.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one line; the time is UTC, to the millisecond."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = (
            f"time={moment}.{int(record.msecs):03d}Z level={record.levelname.lower()} "
            f"logger={record.name} {record.getMessage().translate(_CONTROLS)}"
        )
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        if record.stack_info:
            line = f"{line}\n{self.formatStack(record.stack_info)}"
        return line


def configure_logging(level: str) -> None:
    """Send the log of the whole process to standard error.

    Args:
        level: Least severe level that is written, in lower case: debug, info, warning or error.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
