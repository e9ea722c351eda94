"""Messages a second that the broker routes: many topic bindings, long keys, chains of exchanges.

    python -m bench.routing [--bindings 10000]

Calls the broker's own routing in a loop for some seconds, without sockets and without a server.
"""

import itertools
import time
from collections.abc import Callable
from random import Random
from typing import Final, cast

import click

from amqp_server.broker.exchange import Exchange
from amqp_server.broker.queue import Queue
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.virtual_host import VirtualHost

_WORDS: Final = ("0", "1")


class _Named:
    """Stands for a queue, with the attributes that routing reads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_journaled = False
        self.is_gone = False


@click.command(context_settings={"show_default": True})
@click.option("--bindings", default=10_000, help="Bindings of the larger exchange.")
@click.option("--words", default=30, help="Words in every key and pattern.")
@click.option("--keys", default=1000, help="Different routing keys, in turn.")
@click.option("--hops", default=30, help="Exchanges in the chain.")
@click.option("--seconds", default=0.5, help="Seconds for each figure.")
def main(bindings: int, words: int, keys: int, hops: int, seconds: float) -> None:
    """Measure how many messages a second one thread routes.

    "Remembered" is the rate while nothing changes, "exchange remembers" after a change elsewhere
    in the virtual host, "found again" after a change of the exchange's bindings.
    """
    random = Random(1)
    envelopes = [Envelope((_key(random, words),)) for _ in range(keys)]
    click.echo(
        f"{'':24}{'remembered':>14}{'exchange remembers':>22}{'found again':>14}  messages/s"
    )
    for count in (10, bindings):
        vhost, exchange = _topic(random, count, words)
        _report(f"{count} topic bindings", vhost, exchange, envelopes, seconds)
    vhost, exchange = _chain(hops)
    _report(f"{hops} exchanges in a row", vhost, exchange, envelopes, seconds)


def _key(random: Random, words: int) -> str:
    return ".".join(random.choice(_WORDS) for _ in range(words))


def _topic(random: Random, count: int, words: int) -> tuple[VirtualHost, Exchange]:
    """Return an exchange whose patterns are keys with words replaced by `*` and `#`."""
    vhost = VirtualHost("/")
    exchange = _exchange(vhost, "topic")
    for at in range(count):
        pattern = _key(random, words).split(".")
        pattern[random.randrange(words)] = "*"
        pattern = [*pattern[: random.randrange(words // 2, words)], "#"]
        vhost.bind(exchange, cast("Queue", _Named(f"q{at}")), ".".join(pattern), {})
    return vhost, exchange


def _chain(hops: int) -> tuple[VirtualHost, Exchange]:
    """Return the first exchange of a chain of bound topic exchanges with a queue at its end."""
    vhost = VirtualHost("/")
    exchanges = [_exchange(vhost, f"level {at}") for at in range(hops)]
    for source, destination in itertools.pairwise(exchanges):
        vhost.bind(source, destination, "#", {})
    vhost.bind(exchanges[-1], cast("Queue", _Named("q")), "#", {})
    return vhost, exchanges[0]


def _exchange(vhost: VirtualHost, name: str) -> Exchange:
    exchange = Exchange(
        name, "topic", durable=False, auto_delete=False, internal=False, arguments={}
    )
    vhost.add_exchange(exchange)
    return exchange


def _report(
    title: str, vhost: VirtualHost, exchange: Exchange, envelopes: list[Envelope], seconds: float
) -> None:
    other = cast("Queue", _Named("other"))

    def nothing() -> None:
        """Change nothing."""

    def change_elsewhere() -> None:
        vhost.add_queue(other)
        vhost.remove_queue(other)

    def change_here() -> None:
        vhost.bind(exchange, other, "never.#.fits", {})
        vhost.unbind(exchange, other, "never.#.fits", {})

    rates = [
        _rate(vhost, exchange, envelopes, seconds, change)
        for change in (nothing, change_elsewhere, change_here)
    ]
    click.echo(f"{title:24}{rates[0]:14,.0f}{rates[1]:22,.0f}{rates[2]:14,.0f}")


def _rate(
    vhost: VirtualHost,
    exchange: Exchange,
    envelopes: list[Envelope],
    seconds: float,
    change: Callable[[], None],
) -> float:
    """Return messages a second; each round of all keys follows one change."""
    route = vhost.routing.route
    for envelope in envelopes:
        route(exchange, envelope)
    routed, spent_ns = 0, 0
    while spent_ns < seconds * 1e9:
        change()
        start_ns = time.perf_counter_ns()
        for envelope in envelopes:
            route(exchange, envelope)
        spent_ns += time.perf_counter_ns() - start_ns
        routed += len(envelopes)
    return routed / spent_ns * 1e9


if __name__ == "__main__":
    main()
