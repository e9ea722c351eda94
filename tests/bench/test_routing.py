"""The routing benchmark: it runs, and its figures are of something that is routed."""

from random import Random

from click.testing import CliRunner

from amqp_server.broker.routing.envelope import Envelope
from bench.routing import _chain, _topic, main


def test_it_prints_a_rate_for_each_shape() -> None:
    sizes = ["--bindings", "20", "--words", "4", "--keys", "5", "--hops", "3"]

    result = CliRunner().invoke(main, [*sizes, "--seconds", "0.001"])

    assert result.exit_code == 0, result.output
    titles = [line[:22].strip() for line in result.output.splitlines()[1:]]
    assert titles == ["10 topic bindings", "20 topic bindings", "3 exchanges in a row"]


def test_what_it_measures_is_routed_somewhere() -> None:
    vhost, first = _chain(30)
    assert len(vhost.routing.route(first, Envelope(("a.b",)))) == 1
    vhost, exchange = _topic(Random(1), 100, 4)
    assert vhost.routing.route(exchange, Envelope(("0.0.0.0",)))
