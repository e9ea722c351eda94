"""Patterns are searched, bounded, and never take long."""

import logging

import pytest

from amqp_server.access.patterns import PATTERN_BYTES_MAX, InvalidPatternError, Pattern


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("abc", "xabcx", True),
        ("abc", "xABCx", False),
        ("", "", True),
        ("", "x", False),
        (".*", "", True),
        (".*", "any\nname", True),
        ("^(?!amq\\.).*", "amq.topic", False),
        ("^(?!amq\\.).*", "orders", True),
        ("^[[:alpha:]]+$", "orders", True),
        ("^[[:alpha:]]+$", "orders1", False),
        ("^\\p{Lu}", "Überweisung", True),
        ("^a++b", "aaab", True),
    ],
)
def test_a_pattern_is_searched_in_a_name(text: str, name: str, expected: bool) -> None:
    assert Pattern(text).search(name) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(a", "missing \\)"),
        ("[a", "set"),
        ("x" * (PATTERN_BYTES_MAX + 1), "at most 4096 bytes"),
        ("(a{1000}){1000}", "too large"),
        ("(((a{0,50}){0,50}){0,50}){0,50}", "too large"),
        ("a{99999999999999}", "too large"),
        ("(" * 2000 + ")" * 2000, "nested too deeply"),
    ],
)
def test_a_text_that_is_no_pattern_or_costs_too_much_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidPatternError, match=reason):
        Pattern(text)


def test_a_search_without_end_denies_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    pattern = Pattern("(a|aa)+$")
    with caplog.at_level(logging.WARNING):
        assert not pattern.search("a" * 200 + "!")
        assert not pattern.search("a" * 201 + "!")
    (line,) = caplog.messages
    assert "pattern denied pattern='(a|aa)+$'" in line
