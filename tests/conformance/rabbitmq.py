"""Runs the RabbitMQ that the expectations come from, until it is stopped by Ctrl-C or SIGTERM.

    python -m tests.conformance.rabbitmq

prints its URL, to be given to the tests as AMQP_URL. It runs on a free port, in a directory that
goes with it, with the exchange types that its package brings.
"""

import signal
import tempfile
from pathlib import Path
from typing import Final

from bench.rabbitmq import start_rabbitmq

PLUGINS: Final = ("rabbitmq_consistent_hash_exchange", "rabbitmq_random_exchange")


def main() -> None:
    """Start it, print its URL, and wait for a signal."""
    # Blocked, they wait for `sigwait` and stop nothing half-started. Children inherit no mask
    # that matters: a broker is stopped by its own process id.
    signals = {signal.SIGINT, signal.SIGTERM}
    with (
        tempfile.TemporaryDirectory() as directory,
        start_rabbitmq("RabbitMQ", Path(directory), plugins=PLUGINS) as broker,
    ):
        url = broker.url
        print(f"amqp://{url.user}:{url.password}@{url.host}:{url.port}/%2F", flush=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        signal.sigwait(signals)


if __name__ == "__main__":
    main()
