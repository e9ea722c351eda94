"""The commands of bindings, and the key that tells bindings apart."""

import pytest

from amqp_server.control.properties_key import has_arguments, properties_key, routing_key_in
from amqp_server.protocol.field_values import table_of
from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

ENDS = {"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue"}


@pytest.mark.parametrize(
    ("routing_key", "key"),
    [
        ("", "~"),
        ("plain-key_1.x", "plain-key_1.x"),
        ("a~b/c d%é", "a%7Eb%2Fc+d%25%C3%A9"),
        ("~", "%7E"),
        ("#", "%23"),
        ("*.<b>", "%2A.%3Cb%3E"),
        ("a+b", "a%2Bb"),
        ("\udcff", "%FF"),
    ],
)
def test_the_key_of_a_binding_without_arguments_is_its_quoted_routing_key(
    routing_key: str, key: str
) -> None:
    assert properties_key(routing_key, {}) == key
    assert routing_key_in(key) == routing_key
    assert not has_arguments(key)


def test_the_key_of_a_binding_with_arguments_differs_with_each_argument() -> None:
    keys = {
        properties_key("a b~", table_of(arguments))
        for arguments in ({"a": 1}, {"a": 2}, {"a": "1"}, {"b": 1})
    }
    assert len(keys) == 4
    for key in keys:
        quoted, mark, hashed = key.partition("~")
        assert (quoted, mark, len(hashed)) == ("a+b%7E", "~", 6)
        assert routing_key_in(key) == "a b~"
        assert has_arguments(key)
    assert properties_key("", table_of({"a": 1})).startswith("~")


def test_bindings_are_added_listed_and_deleted(asking: Asking) -> None:
    asking.declare_exchange("x", "headers")
    asking.declare_exchange("y")
    asking.declare("q")
    keys = [
        asking.ask("bindings.add", **ENDS, routing_key=key, arguments=arguments)["properties_key"]
        for key, arguments in (
            ("", {}),
            ("k", {}),
            ("k", {"x-match": "any", "n": 1}),
            ("k", {"n": 2}),
        )
    ]
    between = {"vhost": "/", "source": "x", "destination": "y", "destination_type": "exchange"}
    asking.ask("bindings.add", **between, routing_key="k", arguments={})
    # Again: nothing is added.
    asking.ask("bindings.add", **ENDS, routing_key="k", arguments={})
    assert len(set(keys)) == 4

    rows = asking.listed("bindings.list", "bindings", vhost="/")
    assert rows[0] == {
        "source": "",
        "vhost": "/",
        "destination": "q",
        "destination_type": "queue",
        "routing_key": "q",
        "arguments": {},
        "properties_key": "q",
    }
    assert [row["properties_key"] for row in rows] == ["q", *keys, "k"]
    assert rows[3]["arguments"] == {"x-match": "any", "n": 1}

    def ends(**wanted: str) -> list[tuple[str, str]]:
        found = asking.listed("bindings.list", "bindings", vhost="/", **wanted)
        return sorted({(row["source"], row["destination"]) for row in found})

    assert ends(destination="q") == [("", "q"), ("x", "q")]
    assert ends(source="") == [("", "q")]
    assert ends(source="x") == [("x", "q"), ("x", "y")]
    assert ends(source="x", destination="y", destination_type="queue") == []
    assert ends(source="x", destination_type="exchange") == [("x", "y")]
    assert ends(source="gone") == ends(destination="gone") == []

    for key in keys:
        asking.ask("bindings.delete", **ENDS, properties_key=key)
        error = asking.refusal("bindings.delete", **ENDS, properties_key=key)
        assert error.kind == "not_found"
    asking.ask("bindings.delete", **between, properties_key="k")
    assert ends() == [("", "q")]


def test_refusals_have_the_texts_of_amqp(asking: Asking) -> None:
    asking.declare_exchange("x")
    asking.declare("q")
    wanted = {"routing_key": "k", "arguments": {}}
    for change, text in (
        ({"destination": "gone"}, "NOT_FOUND - no queue 'gone' in vhost '/'"),
        ({"source": "gone"}, "NOT_FOUND - no exchange 'gone' in vhost '/'"),
    ):
        assert asking.refused_text(404, "bindings.add", **{**ENDS, **change}, **wanted) == text
    default = {**ENDS, "source": ""}
    assert asking.refused_text(403, "bindings.add", **default, **wanted) == (
        "ACCESS_REFUSED - operation not permitted on the default exchange"
    )
    assert asking.refused_text(403, "bindings.delete", **default, properties_key="q")
    wrong = asking.refusal("bindings.add", **{**ENDS, "destination_type": "table"}, **wanted)
    assert wrong.kind == "invalid_argument"
    missing = asking.refusal("bindings.list", vhost="gone")
    assert missing.kind == "not_found"


def test_many_bindings_come_in_reports_between_which_others_are_served(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    count = 3_000
    asking.declare("q")
    vhost = threaded_server.server.broker.vhosts["/"]

    def bind_many() -> None:
        for number in range(count):
            exchange = vhost.exchanges["amq.direct"]
            vhost.bind(exchange, vhost.queues["q"], str(number), {})

    threaded_server.call(bind_many)
    turns: list[int] = []

    def count_turns() -> None:
        turns.append(1)
        threaded_server.server.broker.turn.clock.call_later(0, count_turns)

    threaded_server.call(count_turns)
    _, reports = asking.follow("bindings.list", vhost="")
    sizes = [len(report["bindings"]) for report in reports]
    assert sum(sizes) == count + 1
    assert max(sizes) <= 256
    assert len(turns) > len(reports)
