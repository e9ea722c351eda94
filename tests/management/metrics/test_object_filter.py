"""Expressions for names of queues find what they should, and cost no more than they may."""

from __future__ import annotations

import pytest

from amqp_server.management.metrics.object_filter import (
    InvalidFilterError,
    ObjectFilter,
)


def test_without_a_filter_everything_is_shown() -> None:
    wanted = ObjectFilter()
    assert wanted.has_vhost("/")
    assert wanted.has_queue("/", "")


def test_virtual_hosts() -> None:
    wanted = ObjectFilter(["a"])
    assert wanted.has_vhost("a")
    assert not wanted.has_vhost("A")
    assert not wanted.has_queue("/", "a")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("b", "abc"), ("^a", "abc"), ("c$", "abc"), ("(?i)B", "abc"), ("a(?=b)", "abc"), ("é", "é")],
)
def test_an_expression_is_searched_in_the_name(pattern: str, name: str) -> None:
    wanted = ObjectFilter(queue_pattern=pattern)
    assert wanted.has_queue("/", name)
    assert not wanted.has_queue("/", "xyz")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(", "Invalid 'queue' regex"),
        ("*", "Invalid 'queue' regex"),
        ("a{2,1}", "Invalid 'queue' regex"),
        ("x" * 2001, "too long"),
        ("((a{1000}){1000}){1000}", "repeats too often"),
        ("a{99999999999999999999}", "repeats too often"),
        ("(" * 900 + ")" * 900, "nested too deeply|Invalid"),
    ],
)
def test_wrong_expressions(pattern: str, text: str) -> None:
    with pytest.raises(InvalidFilterError, match=text):
        ObjectFilter(queue_pattern=pattern)


def test_the_longest_expression_is_one() -> None:
    assert not ObjectFilter(queue_pattern="x" * 2000).has_queue("/", "x")


def test_a_search_that_never_ends_is_ended() -> None:
    wanted = ObjectFilter(queue_pattern=r"^(?:(?:a|a)+)+\d$")
    with pytest.raises(InvalidFilterError, match="too long to search"):
        wanted.has_queue("/", "a" * 200)
