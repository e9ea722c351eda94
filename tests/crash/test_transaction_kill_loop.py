"""SIGKILL under transactional load, again and again: every transaction is whole, or is not.

`KILL_ROUNDS` and `KILL_SEED` set the length and the luck, as in `test_kill_loop`.
"""

import os
import random
from collections import Counter

import pytest

from tests.conftest import StartServer
from tests.crash.ledger import Ledger
from tests.crash.messages import stop_cleanly
from tests.crash.test_kill_loop import (
    DRAIN_ROUNDS,
    kill_in_its_start,
    pass_time,
    server_options,
)
from tests.crash.transactions import (
    MOVED,
    QUEUES,
    SOURCE,
    Mover,
    Sent,
    TransactionalPublisher,
    check,
    declare,
    take_all,
)
from tests.crash.workers import Worker
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

ROUNDS = int(os.environ.get("KILL_ROUNDS", "6"))
SEED = int(os.environ.get("KILL_SEED", "1"))
SECONDS_A_ROUND = 6
PUBLISHERS = 3
MOVERS = 2
CONFIRMS_MAX = 300
START_KILLED_SHARE = 0.3
INTERPRETED_SHARE = 0.3

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300 + ROUNDS * SECONDS_A_ROUND)]


def test_over_many_kills_each_transaction_is_applied_whole_or_not_at_all(
    start_server: StartServer,
) -> None:
    chance = random.Random(SEED)
    server = start_server()
    declare(server.address)
    server.kill()
    ledger = Ledger(QUEUES)
    sent: list[Sent] = []
    totals: Counter[str] = Counter()
    for number in range(1, ROUNDS + 1):
        server.options = tuple(server_options(chance))
        server.interpreted = chance.random() < INTERPRETED_SHARE
        if chance.random() < START_KILLED_SHARE:
            kill_in_its_start(server, chance)
        server.start()
        work_until_killed(server, ledger, sent, chance)
        if number % DRAIN_ROUNDS == 0 or number == ROUNDS:
            server.options, server.interpreted = (), False
            server.start()
            found = {queue: take_all(server.address, queue) for queue in (SOURCE, *QUEUES)}
            # What was taken must not come back.
            stop_cleanly(server)
            totals["transactions"] += len(sent)
            totals["committed"] += sum(each.is_committed for each in sent)
            totals["moved"] += found[MOVED].total()
            totals["in_each_queue"] += found["left"].total()
            found[MOVED] += found.pop(SOURCE)
            check(found, sent)
            sent.clear()
            text = " ".join(f"{name}={count}" for name, count in totals.items())
            print(f"transaction kill loop rounds={number} seed={SEED} {text}", flush=True)


def work_until_killed(
    server: RunningServer, ledger: Ledger, sent: list[Sent], chance: random.Random
) -> None:
    """Put the server under load, and kill it at a random moment after a random amount of work."""
    seeds = iter(lambda: chance.randrange(1 << 30), -1)
    wanted = ledger.confirmed_count + chance.randrange(1, CONFIRMS_MAX)
    workers: list[Worker] = [
        *(
            TransactionalPublisher(server.address, ledger, next(seeds), number, sent)
            for number in range(PUBLISHERS)
        ),
        *(Mover(server.address, ledger, next(seeds)) for _ in range(MOVERS)),
    ]
    ledger.wait_until_confirmed(wanted, HANG_SECONDS)
    pass_time(chance.uniform(0, 0.03))
    server.kill()
    for worker in workers:
        worker.join()
