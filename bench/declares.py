"""Durable definitions a second that a broker stores: queues, exchanges, bindings.

    python -m bench.declares [--count 5000] [--brokers ours,rabbitmq]

Declares durable queues and exchanges, binds and deletes them. "One by one" sends each request after
the answer to the one before it, "pipelined" sends all at once; both use one connection and several.
An answer promises that the definition survives a power cut, so the disk counts as much as the
broker. Every answer is checked.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from bench import requests
from bench.broker_url import BrokerUrl
from bench.brokers import OURS, RABBITMQ, STARTERS
from bench.connection import Connection
from bench.errors import BenchError
from bench.options import Names, data_dir_option
from bench.requests import Request
from bench.startable_broker import StartableBroker

_CHANNEL: Final = 1


def declare_queue(number: int) -> Request:
    """Declare the durable queue of this number."""
    return requests.declare_queue(_CHANNEL, f"q{number}", durable=True)


def delete_queue(number: int) -> Request:
    """Delete the queue of this number."""
    return requests.delete_queue(_CHANNEL, f"q{number}")


STEPS: Final[tuple[tuple[str, Callable[[int], Request]], ...]] = (
    ("queue.declare", declare_queue),
    (
        "exchange.declare",
        lambda number: requests.declare_exchange(_CHANNEL, f"x{number}", "direct", durable=True),
    ),
    (
        "queue.bind",
        lambda number: requests.bind_queue(_CHANNEL, f"q{number}", f"x{number}", "key"),
    ),
    (
        "queue.unbind",
        lambda number: requests.unbind_queue(_CHANNEL, f"q{number}", f"x{number}", "key"),
    ),
    ("exchange.delete", lambda number: requests.delete_exchange(_CHANNEL, f"x{number}")),
    ("queue.delete", delete_queue),
)
"""Names of the methods and their requests by number; after the last step nothing is left."""


def measure(
    url: BrokerUrl,
    make: Callable[[int], Request],
    send: Callable[[Connection, Sequence[Request]], None],
    *,
    count: int,
    connections: int,
) -> float:
    """Send requests over some connections and return the answers a second.

    Args:
        url: The broker.
        make: Returns the request of a number.
        send: Sends the requests of one connection and waits for the answers:
            `Connection.ask_one_by_one` or `Connection.ask_pipelined`.
        count: Requests of all connections.
        connections: Number of connections.

    Raises:
        BenchError: The broker refused a request or did not answer it.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(Connection(url, _CHANNEL)) for _ in range(connections)]
        failures: list[BaseException] = []

        def work(at: int) -> None:
            try:
                send(opened[at], [make(number) for number in range(at, count, connections)])
            except BaseException as error:  # noqa: BLE001 - raised again below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(connections)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
    if failures:
        raise failures[0]
    return count / seconds


@click.command(context_settings={"show_default": True})
@click.option("--count", type=click.IntRange(1), default=5000, help="Requests of each method.")
@click.option(
    "--connections", type=click.IntRange(1), default=8, help="Connections where several are used."
)
@click.option(
    "--brokers",
    type=Names(list(STARTERS)),
    default=f"{OURS},{RABBITMQ}",
    help="Brokers to start and measure in turn.",
)
@data_dir_option("the brokers' data")
def main(count: int, connections: int, brokers: list[str], data_dir: Path) -> None:
    """Measure declares, binds and deletes of durable definitions, in answers a second."""
    one_by_one, pipelined = Connection.ask_one_by_one, Connection.ask_pipelined
    ways = (
        ("one by one", one_by_one, 1),
        (f"one by one, {connections} connections", one_by_one, connections),
        ("pipelined", pipelined, 1),
        (f"pipelined, {connections} connections", pipelined, connections),
    )
    figures: dict[str, dict[tuple[str, str], float]] = {}
    for broker in brokers:
        figures[broker] = {}
        starter = STARTERS[broker]
        startable = StartableBroker(broker, lambda path: starter(path, None), data_dir)  # noqa: B023 - called in this turn
        with startable.start() as running:
            for title, send, over in ways:
                for step, make in STEPS:
                    try:
                        rate = measure(running.url, make, send, count=count, connections=over)
                    except BenchError as error:
                        raise click.ClickException(f"{broker}: {step}: {error}") from error
                    figures[broker][title, step] = rate
                    click.echo(f"{broker:>10}  {title:<28}{step:<18}{rate:>9,.0f}/s")
    if len(figures) == 2:
        one, other = figures
        for (title, step), rate in figures[one].items():
            ratio = rate / figures[other][title, step]
            click.echo(f"{one}/{other}  {title:<28}{step:<18}{ratio:>9.2f}")


if __name__ == "__main__":
    main()
