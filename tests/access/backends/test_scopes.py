"""What scopes allow; the cases are those of RabbitMQ's documentation."""

from __future__ import annotations

import pytest

from amqp_server.access.backends.oauth2.scopes import TokenScopes, Wildcard
from amqp_server.access.backends.oauth2.token_grants import TokenGrants
from amqp_server.access.permissions import Right


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("", "", True),
        ("", "x", False),
        ("*", "", True),
        ("*", "anything/at all", True),
        ("x", "x", True),
        ("x", "xx", False),
        ("x*", "xyz", True),
        ("*x", "yzx", True),
        ("*x", "xy", False),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "ac", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("**", "x", True),
        ("%2F", "/", True),
        ("a%2Ab", "a*b", True),
        ("a%2Ab", "axb", False),
        ("a+b", "a b", True),
        ("*ab*ba*", "aba", False),
    ],
)
def test_wildcards(pattern: str, text: str, matches: bool) -> None:
    assert Wildcard(pattern).matches(text) is matches


def granted(vhost: str, *scopes: str) -> TokenGrants:
    return TokenGrants(tuple(TokenScopes(scopes).permissions_in(vhost)), ())


def test_a_right_counts_in_its_virtual_hosts_only() -> None:
    scopes = ("read:shop/*", "write:s*/orders", "configure:*/x")
    assert granted("shop", *scopes).allows(Right.READ, "queue", "q")
    assert granted("shop", *scopes).allows(Right.WRITE, "exchange", "orders")
    assert not granted("shop", *scopes).allows(Right.WRITE, "exchange", "orders2")
    assert not granted("other", *scopes).allows(Right.READ, "queue", "q")
    assert granted("other", *scopes).allows(Right.CONFIGURE, "queue", "x")


@pytest.mark.parametrize(
    "scope", ["read", "read:", "read:x", "read:a/b/c/d", "admin:*/*", "tag:x", "READ:*/*", ""]
)
def test_what_is_no_permission_allows_nothing(scope: str) -> None:
    assert not list(TokenScopes((scope,)).permissions_in("a"))


def test_routing_keys_need_a_third_part() -> None:
    two = granted("/", "write:*/*")
    assert two.allows(Right.WRITE, "exchange", "e")
    assert not two.allows_topic(Right.WRITE, "e", "k")
    assert not two.may_publish_all
    three = granted("/", "write:*/e/public.*")
    assert three.allows(Right.WRITE, "exchange", "e")
    assert three.allows_topic(Right.WRITE, "e", "public.x")
    assert not three.allows_topic(Right.WRITE, "e", "private.x")
    assert not three.allows_topic(Right.READ, "e", "public.x")
    assert not three.may_publish_all
    assert granted("/", "write:*/*/*").may_publish_all
    assert not granted("/", "read:*/*/*").may_publish_all
