"""Reports of a process to the broker: a JSON object a line on its standard output.

The broker logs it, so that there is one log in one format.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Final

import orjson

from amqp_server.base.log_text import record_text

TEXT_CHARACTERS_MAX: Final = 2000
_OUTPUT: Final = 1


def report(fields: dict[str, Any]) -> None:
    """Write a report; does nothing if the broker has gone."""
    try:
        os.write(_OUTPUT, orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))
    except OSError:
        return


class ReportHandler(logging.Handler):
    """Sends log records to the broker."""

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, with the place of its exception instead of a traceback."""
        text = record_text(record)
        if record.exc_info and record.exc_info[1] is not None:
            text += f" error={_describe(record.exc_info[1])!r}"
        text = text[:TEXT_CHARACTERS_MAX]
        report({"level": record.levelname.lower(), "logger": record.name, "text": text})


def _describe(error: BaseException) -> str:
    """Return an exception, and in which line of which file it was raised."""
    place, step = "", error.__traceback__
    while step is not None:
        place = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return f"{type(error).__name__}: {error} at {place}"
