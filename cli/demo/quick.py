"""`amqp-server demo --quick`: orders outlive two kills; nothing but the broker has to be installed.

It takes some seconds. Publisher and consumer are the client of the broker's shovels.
"""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

import click

from amqp_server.shovel.link.errors import LinkError
from cli.demo.broker_process import BrokerProcess
from cli.demo.errors import DemoError
from cli.demo.order_book import OrderBook
from cli.demo.order_clients import consume_orders, publish_orders
from cli.exit_codes import EXIT_DONE, EXIT_FAILED

ORDERS: Final = 20_000
STEP_SECONDS_MAX: Final = 60.0
"""Longest time of a step before the demo stops with an error."""
_OPTIONS: Final = (
    ("--management-port", "0"),
    ("--metrics-port", "0"),
    # Shorter than the default of 5 s: half of the orders are consumed within one.
    ("--offset-checkpoint-interval", "100ms"),
)


class QuickDemo:
    """Run of the quick demo. Prints to standard output.

    Args:
        directory: Directory for the broker's log.
        storage_path: Data directory of the broker, missing or empty; absolute.
    """

    def __init__(self, directory: Path, storage_path: Path) -> None:
        arguments = ["--port", "0", "--storage-path", str(storage_path)]
        for option in _OPTIONS:
            arguments += option
        self._broker = BrokerProcess(arguments, directory / "broker.log")
        self._book = OrderBook(ORDERS)
        self._step_count = 0

    def run(self) -> int:
        """Run all steps and return the exit code.

        Raises:
            DemoError: A step failed, so that the next one cannot run.
        """
        began = time.monotonic()
        with self._broker:
            self._start("Start a broker")
            self._publish_and_kill()
            self._start("Start it again, on the same data")
            self._publish_rest()
            self._consume_and_kill()
            self._start("Start it again")
            self._consume_rest()
            self._broker.stop()
        return self._sum_up(time.monotonic() - began)

    def _publish_and_kill(self) -> None:
        self._begin_step(f"Publish {ORDERS} orders, and kill the broker in the middle")
        book, broker = self._book, self._broker
        began = time.monotonic()
        self._finish(publish_orders(broker.port, book, range(ORDERS), ORDERS // 2, broker.kill))
        rate = book.confirmed / (time.monotonic() - began)
        self._say_command(f"kill -9 {broker.pid}")
        _say(f"{book.confirmed} were confirmed, {rate:.0f} a second: each was synced to the disk;")
        _say(
            f"{book.sent - book.confirmed} were on their way, and nobody knows what became of them"
        )

    def _publish_rest(self) -> None:
        self._begin_step("Publish what was not confirmed, as a publisher must, and the rest")
        book = self._book
        self._finish(publish_orders(self._broker.port, book, tuple(book.unconfirmed())))
        _say(f"{book.confirmed} are confirmed now; {book.sent_again} were sent twice")

    def _consume_and_kill(self) -> None:
        half = ORDERS // 2
        self._begin_step(f"Consume {half} of them, and kill the broker again")
        broker = self._broker
        self._finish(consume_orders(broker.port, self._book, half, broker.kill))
        self._say_command(f"kill -9 {broker.pid}")
        _say(f"{self._book.received} were received, and acknowledged in batches")

    def _consume_rest(self) -> None:
        self._begin_step("Consume what is left")
        book = self._book
        before = book.received
        self._finish(consume_orders(self._broker.port, book, None))
        _say(f"{book.received - before} were received; {book.repeated} came twice: sent twice, or")
        _say("delivered twice and then marked redelivered")

    def _sum_up(self, seconds: float) -> int:
        self._begin_step("Summary")
        book = self._book
        _say(f"confirmed {book.confirmed}, lost {book.lost}; {seconds:.1f} s, with two kills")
        faults = [
            f"{count} {fault}"
            for count, fault in (
                (book.lost, "confirmed orders were lost"),
                (ORDERS - book.confirmed, "orders were not confirmed"),
                (book.unmarked, "orders came twice without being marked redelivered"),
                (book.damaged, "messages differ from what was published"),
            )
            if count
        ]
        for fault in faults:
            _say(f"FAILED: {fault}")
        if faults:
            return EXIT_FAILED
        click.echo("\nNext: 'amqp-server' starts a broker for your programs, at amqp://localhost.")
        click.echo(
            "The whole demo, with Spark: pip install 'amqp-server[demo,spark]'; amqp-server demo"
        )
        return EXIT_DONE

    def _start(self, title: str) -> None:
        self._begin_step(title)
        self._say_command(self._broker.command)
        began = time.monotonic()
        self._broker.start()
        _say(f"process {self._broker.pid} listens after {time.monotonic() - began:.1f} s")

    def _finish(self, work: Coroutine[None, None, None]) -> None:
        """Run a client to its end.

        Raises:
            DemoError: It has lost its connection, or does not end in time.
        """

        async def bounded() -> None:
            async with asyncio.timeout(STEP_SECONDS_MAX):
                await work

        try:
            asyncio.run(bounded())
        except LinkError as error:
            raise DemoError(f"the connection was lost: {error}") from error
        except TimeoutError as error:
            raise DemoError(f"a step has not ended in {STEP_SECONDS_MAX:.0f} s") from error

    def _begin_step(self, title: str) -> None:
        self._step_count += 1
        click.echo(f"\n{self._step_count}. {title}")

    def _say_command(self, command: str) -> None:
        _say(f"$ {command}")


def _say(text: str) -> None:
    click.echo(f"   {text}")
