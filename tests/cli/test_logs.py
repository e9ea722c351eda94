"""What a line of the log looks like, as text and as JSON."""

import ast
import json
import logging
import math
import re
import sys
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from amqp_server.base.log_fields import KEY, split_event
from amqp_server.base.log_text import record_text
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
        "time=1970-01-01T00:00:00.000Z level=info logger=amqp_server recovered queue='q' records=3"
    )


def test_a_name_with_control_characters_cannot_write_a_line_of_its_own() -> None:
    name = "q\r\ntime=now level=error\x1b[31m\x85\u2028"

    line = KeyValueFormatter().format(make_record("declared queue=%s", name))

    assert line.endswith(r"queue='q\r\ntime=now level=error\x1b[31m\x85\u2028'")
    assert len(line.splitlines()) == 1


def test_a_traceback_follows_below_the_line() -> None:
    record = make_record("failed")
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        record.exc_info = sys.exc_info()

    line, *traceback = KeyValueFormatter().format(record).splitlines()

    assert line.endswith("logger=amqp_server failed")
    assert traceback[-1] == "  OSError: [Errno 28] No space left on device"


def test_a_name_in_an_exception_cannot_write_a_line_of_its_own() -> None:
    record = make_record("failed")
    try:
        raise ValueError("no queue a\ntime=now level=error forged\rb")
    except ValueError:
        record.exc_info = sys.exc_info()

    lines = KeyValueFormatter().format(record).splitlines()

    assert [line for line in lines if line.startswith("time=")] == lines[:1]
    assert lines[-2:] == ["  ValueError: no queue a", r"  time=now level=error forged\rb"]


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("stopping", (), "stopping"),
        ("%s set vhost=%s name=%r", ("policy", "/", "p"), "policy set vhost='/' name='p'"),
        ("user added user=%r tags=%s", ("ann's", ""), "user added user=\"ann's\" tags=''"),
        ("loss accepted part=%s: %s", ("logs", "gone"), "loss accepted part='logs': 'gone'"),
        ("set aside: n=%d path=%s: look", (2, Path("/x")), "set aside: n=2 path='/x': look"),
        ("upgraded %s documents=%d", (Path("/a b=c"), 2), "upgraded '/a b=c' documents=2"),
        ("refused peer=%s reason=too many", ("p",), "refused peer='p' reason='too many'"),
        ("at place=%s to %s end=%d", ("a", 2, 3), "at place='a to 2' end=3"),
        ("x a=%s b=%s c=%.2f d=%s", (True, None, 1.5, 1), "x a=True b=None c=1.50 d=1"),
        ("failed error=%s", (ValueError("a b"),), "failed error='a b'"),
        ("lost ranges=%s", ([(1, 2)],), "lost ranges='[(1, 2)]'"),
        ("100%% done part=%s", ("a",), "100% done part='a'"),
        ("%(a)s k=%(b)d", ({"a": "x", "b": 2},), "x k=2"),
    ],
)
def test_values_that_are_text_are_quoted(
    template: str, arguments: tuple[object, ...], text: str
) -> None:
    assert record_text(make_record(template, *arguments)) == text


HOSTILE = "a b' level=error user='root' \" \\ \x1b=\n\udcff: x=1, y"


def read_back(text: str) -> tuple[str, dict[str, object]]:
    """Return the event and the fields of a line, read as the pages say how: quotes first."""
    event, fields = re.split(r" ?(?=\b\w+=)", text, maxsplit=1)[0], {}
    at = len(event)
    while found := FIELD.match(text, at):
        fields[found[1]] = ast.literal_eval(found[2]) if found[2][0] in "'\"" else found[2]
        at = found.end()
        # What follows after a colon is advice; texts in it are quoted too.
        if advice := re.match(rf"[:,;] (?:{STRING}|[^'\"=])*?(?= \w+=|$)", text[at:]):
            at += advice.end()
    assert at == len(text), text[at:]
    return event.rstrip(" :"), fields


STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
FIELD = re.compile(rf" ?(\w+)=({STRING}|[^ :,;]+)")


@cache
def log_templates() -> list[tuple[Path, str]]:
    """Return the format strings of all log lines of the project, with the files that have them."""
    return [
        (path, argument.value)
        for room in ("amqp_server", "appendlog", "cli", "metadata", "offsets", "ring")
        for path in (REPOSITORY / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in LOGGING and re.match(r".*(log|announce)", ast.unparse(node.func))
        for argument in node.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def templates_of_the_server() -> list[tuple[Path, str]]:
    """Return the format strings without those of the Spark reader, which go into Spark's log."""
    return [each for each in log_templates() if "spark" not in each[0].parts]


def test_no_line_of_the_project_lets_a_name_forge_a_field() -> None:
    templates = templates_of_the_server()
    assert len(templates) > 150
    for place, template in templates:
        conversions = re.findall(r"%[.\d]*([a-z])", template)
        of_the_event = re.match(r".*?(?=\b\w+=|$)", template)
        assert of_the_event is not None
        words = len(re.findall(r"%[.\d]*([a-z])", of_the_event[0]))
        arguments = [
            7 if kind in "df" else "word" if at < words else HOSTILE
            for at, kind in enumerate(conversions)
        ]
        record = make_record(template, *arguments)
        event, fields = read_back(record_text(record))

        expected_event, expected = split_event(record)
        assert event == expected_event, (place, template)
        assert list(fields) == list(expected), (place, template)
        for key, value in fields.items():
            if f"{key}=%s" in template or f"{key}=%r" in template:
                assert value == HOSTILE, (place, template)


WORDS_IN_EVENTS = {
    "%s": "a variable of the environment, or what is said of a configuration file: one text",
    "%s: %s": "a process of ours, and its line, which it has quoted",
    "%s ended reason=": "a process of ours",
    "%s interrupted reason=": "a command of ours",
    "%s waits for its port address=": "a protocol",
    "%s port is free now address=": "a protocol",
    "%s set vhost=": "a kind of policy",
    "%s cleared vhost=": "a kind of policy",
    "%s queue=": "what was done to a group",
    "%s vhost=": "what is missing",
    "move %s queue=": "an outcome",
    "replay %s queue=": "an outcome",
    "return of dead letters %s queue=": "an outcome",
    "open files limit %d leaves room for %d connections and %d files of logs, all need %d: %s": "",
    "cannot remove checkpoint in %s cause=": "a path: quoted",
    "upgrade of %s is not finished error=": "a path: quoted",
    "upgrade of %s is not finished: %d definitions cannot be read, first %s; the next start "
    "resumes it": "paths: quoted",
    "upgraded %s documents=": "a path: quoted",
    "upgrading %s documents=": "a path: quoted",
}


def test_events_have_no_names() -> None:
    """What stands before the first field is not quoted, so no user may choose it."""
    up_to_a_field = re.compile(r"(?:(?!\b\w+=).)*(?:\w+=)?")
    events = {
        found for _, each in templates_of_the_server() for found in up_to_a_field.findall(each)[:1]
    }
    assert {each for each in events if re.search(r"%[.\d]*[sr]", each)} == WORDS_IN_EVENTS.keys()


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
    named = [(path, template, KEY.findall(template)) for path, template in log_templates()]
    twice = [(path, text) for path, text, keys in named if len(keys) != len(set(keys))]

    assert sum(bool(keys) for *_, keys in named) > 50
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
