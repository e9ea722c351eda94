"""Patterns of policies: searched, bounded, and with errors as RabbitMQ shows them."""

import logging

import pytest

from amqp_server.access.patterns import InvalidPatternError
from amqp_server.broker.policies.name_pattern import SLOW_MAX, NamePattern

HOSTILE = "^(a|a)*$"
LONG_NAME = "a" * 200 + "b"


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        ("abc", "xabcx", True),
        ("abc", "xABCx", False),
        ("(?i)abc", "xABCx", True),
        ("^amq\\.", "amq.topic", True),
        ("^amq\\.", "x.amq.topic", False),
        ("", "anything", True),
        ("^$", "", True),
        ("^$", "a", False),
        ("[[:digit:]]{2}$", "q12", True),
        ("[[:upper:]]", "q", False),
        (".", "\udcff", True),
        ("^(?>a+)b", "aab", True),
        ("^a++a", "aaa", False),
        ("^(\\((?1)*\\))$", "(()())", True),
    ],
)
def test_patterns_are_searched(pattern: str, name: str, is_found: bool) -> None:
    assert NamePattern(pattern).matches(name) is is_found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a", '{"missing )",2}'),
        ("a)", '{"unmatched parentheses",1}'),
        ("*a", '{"nothing to repeat",0}'),
        ("[a", '{"missing terminating ] for character class",2}'),
        ("a{2,1}", '{"numbers out of order in {} quantifier",2}'),
        ("\\", '{"\\\\ at end of pattern",1}'),
        ("x" * 5000, "a pattern has at most 4096 bytes"),
    ],
)
def test_what_is_no_pattern_is_told_in_the_words_of_pcre(pattern: str, text: str) -> None:
    with pytest.raises(InvalidPatternError) as caught:
        NamePattern(pattern)
    assert str(caught.value) == text


def test_a_search_that_takes_too_long_matches_nothing_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pattern = NamePattern(HOSTILE)
    assert pattern.matches("aaa")
    with caplog.at_level(logging.WARNING):
        for _ in range(SLOW_MAX):
            assert not pattern.matches(LONG_NAME)
    assert len(caplog.records) == 1
    assert "takes longer" in caplog.records[0].getMessage()
    # It has used up its time, so it is not even tried.
    assert not pattern.matches("aaa")
    assert NamePattern(HOSTILE).matches("aaa")


def test_patterns_are_equal_if_their_texts_are() -> None:
    assert NamePattern("a") == NamePattern("a")
    assert len({NamePattern("a"), NamePattern("a"), NamePattern("b")}) == 2
