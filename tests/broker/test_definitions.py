"""The order of bindings, as their documents tell it."""

from typing import Any

from amqp_server.broker.definitions import bind_from, identity_from, in_binding_order
from amqp_server.broker.virtual_host import VirtualHost
from metadata.document import Document
from tests.broker.bindings import a_queue, an_exchange


def a_document(queue: str, **more: Any) -> Document:  # noqa: ANN401
    body: dict[str, Any] = {
        "source": "x",
        "destination_kind": "queue",
        "destination": queue,
        "routing_key": "1",
        "arguments": {},
        **more,
    }
    return Document("bindings", "/", identity_from(body).document_name, body)


def recovered(*documents: Document) -> list[str]:
    vhost = VirtualHost("/")
    vhost.add_exchange(an_exchange("x", "x-consistent-hash"))
    for document in documents:
        vhost.add_queue(a_queue(document.body["destination"]))
    for document in in_binding_order(documents):
        assert bind_from(document, vhost)
    bindings = vhost.exchanges["x"].bindings.values()
    return [each.destination.name for each in sorted(bindings, key=lambda each: each.number)]


def test_bindings_come_back_in_the_order_of_their_numbers() -> None:
    assert recovered(
        a_document("q0", number=3),
        a_document("q1", number=10),
        a_document("q2", number=7),
    ) == ["q0", "q2", "q1"]


def test_bindings_without_numbers_come_first_in_one_and_the_same_order() -> None:
    without = [a_document("one"), a_document("two"), a_document("nonsense", number="1")]
    documents = [a_document("numbered", number=3), *without]

    by_name = sorted(without, key=lambda document: document.name)
    expected = [document.body["destination"] for document in by_name] + ["numbered"]
    assert recovered(*documents) == expected
    assert recovered(*reversed(documents)) == expected


def test_a_new_binding_is_behind_those_that_came_back() -> None:
    vhost = VirtualHost("/")
    vhost.add_exchange(an_exchange("x", "x-consistent-hash"))
    vhost.add_queue(a_queue("q0"))
    assert bind_from(a_document("q0", number=41), vhost)

    binding = vhost.bind(vhost.exchanges["x"], a_queue("q1"), "1", {})

    assert binding is not None
    assert binding.number == 42
