"""SIGKILL at random moments, again and again: no confirmed message may be lost.

`KILL_ROUNDS` and `KILL_SEED` set the length and the luck; the seed decides when the server dies
and what its clients do, so far as threads let it.
"""

import os
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Exchange, Queue

from amqp_server.control.client import ask
from tests.amqp_client import connect
from tests.conformance.polling import eventually
from tests.conftest import StartServer
from tests.crash.churner import Churn, Churner
from tests.crash.ledger import NOTHING, Ledger, Verdict
from tests.crash.messages import stop_cleanly
from tests.crash.workers import Consumer, Pinner, Publisher, Worker
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

ROUNDS = int(os.environ.get("KILL_ROUNDS", "12"))
SEED = int(os.environ.get("KILL_SEED", "1"))
SECONDS_A_ROUND = 9
DRAIN_ROUNDS = 25
"""Rounds after which all queues are emptied: what the consumers do not manage would grow for ever,
and a long run would try nothing but starts on a backlog of millions."""
PUBLISHERS = 4
EXCHANGE = "everywhere"
QUEUES: dict[str, dict[str, object]] = {
    "shared": {},
    "mirror": {"x-durability": "fsync", "x-retain-bytes": 200_000},
    "ranked": {"x-max-priority": 3},
    "quorum": {"x-queue-type": "quorum"},
    "pinned": {},
}
SHORT = "short"
LATE = "late"
"""Where everything goes that has expired in `SHORT`: at least once, and not marked."""
CONSUMERS = ("shared", "shared", "mirror", "ranked", "quorum", LATE)
PINNED = "pinned"
CONFIRMS_MAX = 1500
START_KILLED_SHARE = 0.25
INTERPRETED_SHARE = 0.3

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300 + ROUNDS * SECONDS_A_ROUND)]


@pytest.fixture
def chance() -> random.Random:
    """Return what decides the moments."""
    return random.Random(SEED)


def server_options(chance: random.Random) -> Iterator[str]:
    """Yield the options of one round: small and large windows, checkpoints often or never."""
    yield from ("--offset-checkpoint-interval", chance.choice(["0", "20ms", "100ms"]))
    yield from ("--ring-size", chance.choice(["1024", "65536"]))
    yield from ("--ring-bytes", chance.choice(["64KiB", "16MiB"]))
    yield from ("--durability", chance.choice(["fsync", "write"]))
    yield from ("--flush-bytes", chance.choice(["4KiB", "256KiB"]))
    yield from ("--segment-bytes", chance.choice(["64KiB", "64KiB", "256KiB", "64MiB"]))
    yield from ("--compact-below", "0.9")


def test_no_confirmed_message_is_lost_over_many_kills(
    start_server: StartServer, chance: random.Random, tmp_path: Path
) -> None:
    server = start_server()
    declare(server)
    server.kill()
    ledger = Ledger((*QUEUES, LATE))
    churn = Churn()
    compacted: set[Path] = set()
    verdicts: defaultdict[str, Verdict] = defaultdict(lambda: NOTHING)
    for number in range(1, ROUNDS + 1):
        server.options = tuple(server_options(chance))
        server.interpreted = chance.random() < INTERPRETED_SHARE
        if chance.random() < START_KILLED_SHARE:
            kill_in_its_start(server, chance)
        server.start()
        work_until_killed(server, ledger, churn, chance)
        # The generation in the name is how often a segment was rewritten.
        compacted.update(server.storage_path.glob("logs/*/*/*/*-*.log"))
        if number % DRAIN_ROUNDS == 0 or number == ROUNDS:
            drain_all(server, ledger)
            for queue in (*QUEUES, LATE):
                verdicts[queue] += check(queue, ledger, number)
            ledger.close()
            print(f"kill loop rounds={number} seed={SEED} and nothing is lost", flush=True)
    server.start()
    assert not any(drain(server, queue, ledger) for queue in (*QUEUES, LATE))
    assert churn.rounds, "nothing was purged or deleted"
    assert churn.checks >= ROUNDS
    assert len(compacted) >= ROUNDS // 4, "almost nothing was compacted"
    for queue, verdict in verdicts.items():
        print(f"kill loop rounds={ROUNDS} seed={SEED} queue={queue} {verdict}")
        assert verdict.redelivered, "no kill left anything to be delivered again"
    print(f"kill loop rounds={ROUNDS} seed={SEED} compacted={len(compacted)}")


def check(queue: str, ledger: Ledger, number: int) -> Verdict:
    """Check what the history says of a queue after `number` rounds, and return it."""
    verdict = ledger.check(queue)
    text = f"queue={queue} rounds={number} {verdict}"
    if queue == LATE:
        assert not verdict.lost, text
        assert not verdict.unexpected, text
    else:
        assert verdict.is_good, text
    return verdict


def declare(server: RunningServer) -> None:
    """Make the exchange and the queues."""
    with connect(server.address) as client:
        client.open_channel()
        fanout = Exchange.Declare(exchange=EXCHANGE, exchange_type="fanout", durable=True)
        client.call(fanout, Exchange.DeclareOk)
        expiring = {
            "x-message-ttl": 20,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": LATE,
        }
        client.declare(LATE)
        for queue, arguments in {**QUEUES, SHORT: expiring}.items():
            client.declare(queue, arguments=arguments)
            client.call(Queue.Bind(queue=queue, exchange=EXCHANGE, routing_key=""), Queue.BindOk)


def kill_in_its_start(server: RunningServer, chance: random.Random) -> None:
    """Start the server and kill it somewhere between its first line of code and listening."""
    server.begin()
    pass_time(chance.uniform(0.1, 0.5))
    server.kill()


def work_until_killed(
    server: RunningServer, ledger: Ledger, churn: Churn, chance: random.Random
) -> None:
    """Put the server under load, and kill it at a random moment after a random amount of work."""
    seeds = iter(lambda: chance.randrange(1 << 30), -1)
    wanted = ledger.confirmed_count + chance.randrange(1, CONFIRMS_MAX)
    churner = Churner(server.address, ledger, next(seeds), churn)
    workers: list[Worker] = [
        *(Publisher(server.address, ledger, next(seeds), n, EXCHANGE) for n in range(PUBLISHERS)),
        *(Consumer(server.address, ledger, next(seeds), queue) for queue in CONSUMERS),
        Pinner(server.address, ledger, next(seeds), PINNED),
        churner,
    ]
    assert churner.has_checked.wait(HANG_SECONDS)
    ledger.wait_until_confirmed(wanted, HANG_SECONDS)
    pass_time(chance.uniform(0, 0.03))
    server.kill()
    for worker in workers:
        worker.join()


def wait_until_settled(server: RunningServer, queue: str) -> None:
    """Return when every message of a queue is safe in the queue that it leaves for.

    A count of ready messages would not do: a message on its way is ready in neither queue.
    """

    def is_settled() -> bool:
        asked = {"vhost": "/", "queue": queue, "after": "", "limit": 1}
        [stats] = ask(server.storage_path, "queues.stats", **asked)["queues"]
        return not stats["ready"] and not stats["unacked"]

    eventually(is_settled)


def pass_time(seconds: float) -> None:
    """Let a random moment come: nothing is waited for."""
    threading.Event().wait(seconds)


def drain_all(server: RunningServer, ledger: Ledger) -> None:
    """Take everything out of all queues, and stop the server cleanly: nothing comes back."""
    server.options, server.interpreted = (), False
    server.start()
    wait_until_settled(server, SHORT)
    for queue in (*QUEUES, LATE):
        drain(server, queue, ledger)
    stop_cleanly(server)


def drain(server: RunningServer, queue: str, ledger: Ledger) -> int:
    """Take everything out of a queue; return how many messages that was."""
    with connect(server.address) as client:
        client.open_channel()
        session, count = ledger.next_session(), client.ready_count(queue)
        client.consume(queue, no_ack=True)
        for _ in range(count):
            message = client.expect_delivery()
            ledger.deliver(queue, message.body, redelivered=message.redelivered, session=session)
        client.close()
    return count
