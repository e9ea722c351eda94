"""What a line of the log looks like."""

import logging
import sys

import pytest

from cli.logs import KeyValueFormatter, configure_logging


def make_record(message: str, *arguments: object, created: float = 0.0) -> logging.LogRecord:
    record = logging.LogRecord("amqp_server", logging.INFO, "x.py", 1, message, arguments, None)
    record.created, record.msecs = created, (created % 1) * 1000
    return record


def test_a_line_has_time_level_logger_and_the_event() -> None:
    line = KeyValueFormatter().format(make_record("recovered queue=%s records=%d", "q", 3))

    assert line == (
        "time=1970-01-01T00:00:00.000Z level=info logger=amqp_server recovered queue=q records=3"
    )


def test_a_name_with_control_characters_cannot_write_a_line_of_its_own() -> None:
    name = "q\r\ntime=now level=error\x1b[31m\x85\u2028"

    line = KeyValueFormatter().format(make_record("declared queue=%s", name))

    assert line.endswith(r"queue=q\r\ntime=now level=error\x1b[31m\x85\u2028")
    assert len(line.splitlines()) == 1


def test_a_traceback_follows_below_the_line() -> None:
    record = make_record("failed")
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        record.exc_info = sys.exc_info()

    line, *traceback = KeyValueFormatter().format(record).splitlines()

    assert line.endswith("logger=amqp_server failed")
    assert traceback[-1] == "OSError: [Errno 28] No space left on device"


def test_the_level_is_that_of_the_whole_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)

    configure_logging("warning")
    logging.getLogger("a.b").warning("seen key=%d", 1)
    logging.getLogger("a.b").info("not seen")

    written = capsys.readouterr().err
    assert written.endswith("level=warning logger=a.b seen key=1\n")
    assert "not seen" not in written
