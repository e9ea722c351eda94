"""Runs the RabbitMQ that the expectations come from, on a free port, and stops it.

    python -m tests.conformance.rabbitmq

prints its URL, to be given to the tests as AMQP_URL, and runs it until Ctrl-C or SIGTERM. With a
command behind it, the command runs with that AMQP_URL instead, and its exit status is the answer.
Its directory goes with it; the exchange types that its package brings are enabled.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.rabbitmq import CONTROL_COMMAND, start_rabbitmq
from tests.conformance.administration import CONTROL_VARIABLE
from tests.conformance.polling import URL_VARIABLE

PLUGINS: Final = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_random_exchange",
)

# Its schedulers would else look for work for a while before they sleep, on a core of other tests.
SLEEPING_SCHEDULERS: Final = "+sbwt none +sbwtdcpu none +sbwtdio none"


@contextmanager
def rabbitmq_url(directory: Path) -> Iterator[str]:
    """Run RabbitMQ with all that it writes in an empty directory, and give its URL."""
    with start_rabbitmq(
        "RabbitMQ", directory, plugins=PLUGINS, erlang_flags=SLEEPING_SCHEDULERS
    ) as broker:
        url = broker.url
        yield f"amqp://{url.user}:{url.password}@{url.host}:{url.port}/%2F"


def main(command: Sequence[str]) -> int:
    """Start it, and run the command or wait for a signal; return the exit status."""
    with tempfile.TemporaryDirectory() as directory, rabbitmq_url(Path(directory)) as url:
        if command:
            # As Ctrl-C does, it has to end the command and leave no RabbitMQ behind.
            signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
            settings = {URL_VARIABLE: url, CONTROL_VARIABLE: f"{directory}/{CONTROL_COMMAND}"}
            return subprocess.run(command, env=os.environ | settings, check=False).returncode
        print(url, flush=True)
        # Blocked, they wait for `sigwait` and stop nothing half-started. Children inherit no mask
        # that matters: a broker is stopped by its own process id.
        signals = {signal.SIGINT, signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        signal.sigwait(signals)
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
