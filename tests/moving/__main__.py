"""Moves a volume between two machines under load, and checks that nothing is lost. Needs root.

    python -m tests.moving [--rounds 50] [--queues 1000] [--megabytes 1000] [--seed 7]

The machines are namespaces of Linux; the volume is an ext4 in a file, behind a loop device. In each
round the machine with the broker is killed, loses its power, or freezes; the other one mounts the
volume, starts the broker and takes the address of the service. At the end every client's history is
checked. Prints what each round took, and histograms.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from tests.moving.kept import Kept
from tests.moving.machines import NAMESPACES, what_is_missing
from tests.moving.mover import Death, Move
from tests.moving.rounds import Rounds, say
from tests.servers import REPOSITORY

_INSIDE: Final = "MOVING_INSIDE"
"""Variable that says that this process is in namespaces of its own."""
_BODY_BYTES: Final = 64 * 1024
_BIN_SECONDS: Final = 0.25
_PARTS: Final[dict[str, Callable[[Move], float]]] = {
    "detach": lambda move: move.detach,
    "mount": lambda move: move.mount,
    "start": lambda move: move.start,
    "outage": lambda move: move.outage,
}


@click.command(help=__doc__)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--queues", default=50, show_default=True, type=click.IntRange(1))
@click.option("--megabytes", default=10, show_default=True, help="In these queues, at first.")
@click.option("--seed", default=1, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), help="For the volume's image.")
def main(rounds: int, queues: int, megabytes: int, seed: int, directory: Path | None) -> None:
    """Go into namespaces, and do the rounds."""
    if _INSIDE not in os.environ:
        missing = what_is_missing()
        if missing is not None:
            sys.exit(missing)
        environment = {**os.environ, _INSIDE: "1", "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "-m", "tests.moving", *sys.argv[1:]]
        os.execvpe("unshare", ["unshare", *NAMESPACES, *command], environment)
    messages = megabytes * 1_000_000 // queues // _BODY_BYTES + 1
    kept = Kept(queues, messages, _BODY_BYTES)
    with tempfile.TemporaryDirectory(prefix="amqp-server-moving-", dir=directory) as path:
        done = Rounds(Path(path), kept, megabytes * 1_000_000, seed)
        done.run(rounds)
    once = [move for move in done.moves if not move.has_died_twice]
    say(f"{rounds} rounds, seed {seed}, 0 lost")
    for death in Death:
        of_death = [move for move in once if move.death is death]
        if of_death:
            parts = (f"{name} {_median(of_death, of):.2f}" for name, of in _PARTS.items())
            say(f"{death.value}: {len(of_death)} rounds, medians in seconds: {', '.join(parts)}")
    for name, of in _PARTS.items():
        say(f"{name}: {_histogram([of(move) for move in once])}")


def _median(moves: list[Move], of: Callable[[Move], float]) -> float:
    return statistics.median(map(of, moves))


def _histogram(seconds: list[float]) -> str:
    """Return how many fall into each step of `_BIN_SECONDS`, and the median."""
    if not seconds:
        return "nothing"
    bins = [int(value / _BIN_SECONDS) for value in seconds]
    counts = (f"<{(at + 1) * _BIN_SECONDS:.2f}s:{bins.count(at)}" for at in sorted(set(bins)))
    return f"{' '.join(counts)}; median {statistics.median(seconds):.2f} s"


if __name__ == "__main__":
    main()
