"""Keeps the text of log records only, because thousands of servers start and fail here."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _records_keep_text_only() -> Iterator[None]:
    """Let log records hold no errors.

    pytest keeps the records of a test until the test ends. An error holds its traceback, and
    through that the whole disk that failed: up to 4 MB for each operation of a scenario.
    """
    make = logging.getLogRecordFactory()

    def make_text(*arguments: Any, **named: Any) -> logging.LogRecord:  # noqa: ANN401 - as the original
        record = make(*arguments, **named)
        record.msg, record.args = record.getMessage(), None
        return record

    logging.setLogRecordFactory(make_text)
    yield
    logging.setLogRecordFactory(make)
