"""The command `python -m bench`."""

import json
import signal
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from bench.bounds import measure_consumer, measure_publisher
from bench.broker_url import BrokerUrl
from bench.brokers import OURS, RABBITMQ, STARTERS, Starter
from bench.capacity.command import capacity
from bench.embedded_broker import testing
from bench.errors import BenchError
from bench.isolation.command import isolation
from bench.logins.command import logins
from bench.machine import Machine
from bench.management.command import management
from bench.message_body import BODY_BYTES_MAX, BODY_BYTES_MIN
from bench.options import CONTEXT, Names, data_dir_option, json_option
from bench.page.command import page
from bench.report import format_table, to_json
from bench.running_broker import RunningBroker
from bench.session import Outcome, Session
from bench.table.command import table
from bench.tls import tls
from bench.traffic.command import traffic
from bench.workloads import DEFAULT_WORKLOADS, QUICK, WORKLOADS, Scale

URL_BROKER: Final = "url"

_BOUND_SECONDS: Final = 2.0
_BOUND_RUNS: Final = 5


class _Url(click.ParamType[BrokerUrl]):
    """The URL of a running broker."""

    name = "URL"

    def convert(
        self, value: str | BrokerUrl, param: click.Parameter | None, ctx: click.Context | None
    ) -> BrokerUrl:
        """Parse the URL."""
        if isinstance(value, BrokerUrl):
            return value
        try:
            return BrokerUrl.parse(value)
        except ValueError as error:
            self.fail(str(error))


@click.group(invoke_without_command=True, context_settings=CONTEXT)
@click.option(
    "--workloads",
    type=Names(list(WORKLOADS)),
    default=",".join(DEFAULT_WORKLOADS),
    help="Workloads to run; docs/benchmarks.md describes them.",
)
@click.option(
    "--brokers",
    type=Names(list(STARTERS)),
    help=f"Brokers to start and measure in turn.  [default: {OURS},{RABBITMQ}; none with --url]",
)
@click.option("--url", type=_Url(), help="Running broker to measure too: amqp://...")
@click.option("--server-pid", type=int, help="Process id of that broker, if it is on this machine.")
@click.option("--quick", is_flag=True, help="Short runs and rough figures, in less than a minute.")
@click.option("--seconds", type=click.FloatRange(0.1), help="Seconds to publish.  [default: 5]")
@click.option("--count", type=click.IntRange(1), help="Messages to publish, instead of --seconds.")
@click.option(
    "--warm-up",
    type=click.FloatRange(0),
    help="Seconds of warm-up before each run.  [default: 0.5]",
)
@click.option(
    "--rate", type=click.IntRange(1), help="Messages a second of `latency`.  [default: 10000]"
)
@click.option("--soak-seconds", type=click.FloatRange(1), help="Seconds of `soak`.  [default: 30]")
@click.option(
    "--backlog-count", type=click.IntRange(1), help="Messages of `backlog`.  [default: 5000000]"
)
@click.option(
    "--body-bytes",
    type=click.IntRange(BODY_BYTES_MIN, BODY_BYTES_MAX),
    help="Size of each body.  [default: 128]",
)
@click.option(
    "--runs", type=click.IntRange(1), default=1, help="Runs of each workload; medians are shown."
)
@data_dir_option("the servers' data", tempfile.gettempdir)
@json_option
@click.option("--bounds", is_flag=True, help="Measure only the generator itself.")
@click.pass_context
def main(
    context: click.Context,
    workloads: list[str],
    brokers: list[str] | None,
    url: BrokerUrl | None,
    server_pid: int | None,
    quick: bool,
    seconds: float | None,
    count: int | None,
    warm_up: float | None,
    rate: int | None,
    soak_seconds: float | None,
    backlog_count: int | None,
    body_bytes: int | None,
    runs: int,
    data_dir: Path,
    json_file: Path | None,
    bounds: bool,
) -> None:
    """Measure AMQP 0-9-1 brokers: ours beside RabbitMQ, or any broker by its URL.

    The exit status is 1 if a figure does not count: messages were lost, nothing was delivered for
    a second, or a run failed. `table` measures all rows of the benchmark table and judges their
    bars. `traffic` measures messages that all differ. `isolation` measures what other clients
    notice while one attacks the broker. `management` measures what the HTTP API and the page cost
    the clients of AMQP, `page` how fast the page shows many queues. `testing` measures the broker
    inside a test run. `tls` measures what TLS costs, `capacity` what a connection, a queue and a
    message cost.
    """
    if context.invoked_subcommand:
        _refuse_options(context)
        return
    scale = _adjust(
        QUICK if quick else Scale(),
        seconds=seconds,
        count=count,
        warm_up_seconds=warm_up,
        rate_per_second=rate,
        soak_seconds=soak_seconds,
        backlog_count=backlog_count,
        body_bytes=body_bytes,
    )
    # The servers run in sessions of their own: only this process stops them.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    machine = Machine.inspect()
    click.echo(machine.describe())
    if bounds:
        _print_bounds(scale.body_bytes)
        return
    starters = {name: STARTERS[name] for name in brokers or ([] if url else [OURS, RABBITMQ])}
    if url:
        starters[URL_BROKER] = _reach(url, server_pid)
    session = Session(starters, scale, runs, data_dir, lambda line: click.echo(line, err=True))
    outcomes: list[Outcome] = []
    for name in workloads:
        try:
            found = session.run(name)
        except BenchError as error:
            raise click.ClickException(str(error)) from error
        click.echo(format_table(found))
        outcomes += found
    if json_file:
        report = to_json(machine, sys.argv, scale, outcomes)
        json_file.write_text(json.dumps(report, indent=1) + "\n")
    if not all(outcome.counts for outcome in outcomes):
        sys.exit(1)


def _refuse_options(context: click.Context) -> None:
    """Refuse options before the name of a sub-command, which does not get them."""
    for name in context.params:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} belongs behind the command's name")


def _adjust(scale: Scale, **given: Any) -> Scale:  # noqa: ANN401 - each has the type of its field
    """Return the scale with the values that the command line gives."""
    return replace(scale, **{name: value for name, value in given.items() if value is not None})


def _reach(url: BrokerUrl, pid: int | None) -> Starter:
    """Return a starter for a broker that already runs."""
    return lambda _directory, _ring_slots: nullcontext(RunningBroker(URL_BROKER, url, pid))


def _print_bounds(body_bytes: int) -> None:
    bounds = {
        "publisher into a sink": measure_publisher(_BOUND_SECONDS, body_bytes),
        "consumer from memory": measure_consumer(_BOUND_RUNS, body_bytes),
    }
    for name, bound in bounds.items():
        click.echo(
            f"{name}: {bound.messages_per_second:,.0f} msg/s of {body_bytes} bytes, "
            f"{bound.cpu_seconds_per_million:.3f} s CPU per million"
        )


main.add_command(table)
main.add_command(capacity)
main.add_command(isolation)
main.add_command(logins)
main.add_command(management)
main.add_command(page)
main.add_command(testing)
main.add_command(tls)
main.add_command(traffic)
