"""The plan of an import counts new objects against limits."""

from types import SimpleNamespace
from typing import cast

import pytest

from amqp_server.base.limits import Limits
from amqp_server.broker.broker import Broker
from amqp_server.broker.virtual_host import VirtualHost
from amqp_server.definitions_file.entry import Entry
from amqp_server.definitions_file.errors import DefinitionsError
from amqp_server.definitions_file.import_plan import ImportPlan
from amqp_server.definitions_file.import_report import Outcome
from amqp_server.definitions_file.parts.bindings import BindingsPart
from amqp_server.definitions_file.parts.exchanges import ExchangesPart


def entry(index: int) -> Entry:
    return Entry("queues", index, "", {})


def test_a_limit_is_reached_and_not_passed_and_each_place_has_its_own() -> None:
    plan = ImportPlan({}, None, "")
    for index in range(2):
        plan.count_new(entry(index), "vhost 'x'", 3, 5)
    text = r"queues\[2\]: vhost 'x' would have more than 5 queues, the limit"
    with pytest.raises(DefinitionsError, match=text):
        plan.count_new(entry(2), "vhost 'x'", 3, 5)
    plan.count_new(entry(3), "vhost 'y'", 4, 5)


@pytest.mark.parametrize("name", ["", "amq.topic", "amq.rabbitmq.event"])
def test_exchanges_that_every_virtual_host_has_are_equal(name: str) -> None:
    plan = ImportPlan({"/": VirtualHost("/")}, "/", "")
    part = ExchangesPart(cast("Broker", None))  # what is not created needs no broker
    part.plan(Entry("exchanges", 0, "", {"name": name, "type": "nonsense"}), plan)
    assert plan.report.counts == {"exchanges": {Outcome.EQUAL: 1}}
    assert plan.steps == []


def test_of_an_exchange_that_is_there_twice_the_first_entry_counts() -> None:
    plan = ImportPlan({"/": VirtualHost("/")}, "/", "")
    broker = SimpleNamespace(config=SimpleNamespace(limits=Limits()))
    part = ExchangesPart(cast("Broker", broker))
    for index, kind in enumerate(("topic", "fanout")):
        part.plan(Entry("exchanges", index, "", {"name": "x", "type": kind}), plan)
    assert plan.report.counts == {"exchanges": {Outcome.CREATED: 1, Outcome.DIFFERENT: 1}}
    (difference,) = plan.report.different
    assert difference.endswith("has other values in exchanges[0], which counts")
    assert len(plan.steps) == 1


def test_an_exchange_that_only_a_server_could_create_is_skipped_with_its_bindings() -> None:
    host = VirtualHost("/")
    plan = ImportPlan({"/": host}, "/", "")
    exchange = Entry("exchanges", 0, "", {"name": "amq.orders", "type": "topic"})
    ExchangesPart(cast("Broker", None)).plan(exchange, plan)
    binding = {"destination": "amq.fanout", "destination_type": "exchange"}
    for index, source in enumerate(("amq.orders", "amq.rabbitmq.log")):
        entry = Entry("bindings", index, "", {"source": source, **binding})
        BindingsPart(cast("Broker", None)).plan(entry, plan)
    assert plan.report.skipped == [
        "exchanges[0]: exchange 'amq.orders' belongs to a server",
        "bindings[0]: the binding of 'amq.fanout': exchange 'amq.orders' is not imported",
        "bindings[1]: the binding of 'amq.fanout': exchange 'amq.rabbitmq.log' is not imported",
    ]
    assert plan.steps == []
