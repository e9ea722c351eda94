"""What a line of the log looks like, as text and as JSON."""

import ast
import json
import logging
import math
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.logs import JsonFormatter, KeyValueFormatter, configure_logging

REPOSITORY = Path(__file__).resolve().parents[2]
LOGGING = {"debug", "info", "warning", "error", "exception", "log"}


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


def as_json(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    written: dict[str, Any] = json.loads(line)
    return written


def test_a_json_line_has_the_event_the_whole_message_and_typed_fields() -> None:
    record = make_record(
        "recovered queue=%s records=%d seconds=%.3f clean=%s error=%s share=%s",
        *("q", 3, 0.12345, True, None, 0.5),
        created=1_700_000_000.25,
    )

    assert as_json(record) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "info",
        "logger": "amqp_server",
        "event": "recovered",
        "message": "recovered queue=q records=3 seconds=0.123 clean=True error=None share=0.5",
        "fields": {
            "queue": "q",
            "records": 3,
            "seconds": 0.123,
            "clean": True,
            "error": None,
            "share": 0.5,
        },
    }
    assert datetime.fromisoformat(as_json(record)["time"]).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("template", "arguments", "event", "fields"),
    [
        ("stopping", (), "stopping", {}),
        ("%s", ("a b=c",), "a b=c", {}),
        ("replay %s queue=%s", ("done", "q"), "replay done", {"queue": "q"}),
        ("loss accepted part=%s: %s", ("logs", "gone"), "loss accepted", {"part": "logs"}),
        ("set aside: count=%d path=%s: look", (2, "x"), "set aside", {"count": 2, "path": "x"}),
        ("refused peer=%s reason=too many", ("p",), "refused", {"peer": "p", "reason": "too many"}),
        ("at place=%s to %s end=%d", (1, 2, 3), "at", {"place": "1 to 2", "end": 3}),
        ("failed reason=%r", ("x y",), "failed", {"reason": "'x y'"}),
        ("rate=%.1f", (math.inf,), "", {"rate": "inf"}),
        ("100%% done part=%s", ("a",), "100% done", {"part": "a"}),
    ],
)
def test_fields_come_from_the_format_string(
    template: str, arguments: tuple[object, ...], event: str, fields: dict[str, object]
) -> None:
    record = make_record(template, *arguments)
    written = as_json(record)

    assert (written["event"], written["fields"]) == (event, fields)
    assert written["message"] == record.getMessage()


def test_a_name_cannot_write_a_json_line_or_field_of_its_own() -> None:
    name = 'q level=error "x"\r\n{"level":"error"}\x1b\u2028\udcff'

    written = as_json(make_record("declared queue=%s records=%d", name, 1))

    assert written["level"] == "info"
    assert written["fields"] == {"queue": name, "records": 1}


def test_a_mapping_of_arguments_is_a_message_without_fields() -> None:
    record = make_record("%(a)s k=%(b)d", {"a": "x", "b": 2})

    assert (as_json(record)["event"], as_json(record)["fields"]) == ("x k=2", {})


def test_a_traceback_is_a_member_of_the_json_line() -> None:
    record = make_record("failed")
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        record.exc_info = sys.exc_info()

    written = as_json(record)

    assert written["exception"].splitlines()[-1] == "OSError: [Errno 28] No space left on device"


def test_no_log_line_of_the_project_names_a_field_twice() -> None:
    twice = []
    seen = 0
    for room in ("amqp_server", "appendlog", "cli", "metadata", "offsets", "ring"):
        for path in (REPOSITORY / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    for argument in node.args[:2]:
                        if node.func.attr in LOGGING and isinstance(argument, ast.Constant):
                            keys = re.findall(r"(?:^| )(\w+)=", str(argument.value))
                            seen += bool(keys)
                            if len(keys) != len(set(keys)):
                                twice.append(f"{path.name}: {argument.value!r}")

    assert seen > 50
    assert twice == []


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
