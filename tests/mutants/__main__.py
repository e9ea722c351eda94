"""`python -m tests.mutants`: draw bugs, put them in, report; `make mutants`."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Final

from tests.mutants.committed_tree import CommittedTree
from tests.mutants.drawing import draw, equivalent_bugs
from tests.mutants.hunt import Hunt
from tests.mutants.recorded_lines import RecordedLines
from tests.mutants.report import report
from tests.mutants.results import Results
from tests.mutants.rooms import ROOMS, recorded_files
from tests.mutants.workplace import Workplace

REPOSITORY: Final = Path(__file__).parents[2]
KEPT: Final = REPOSITORY / ".mutants"
EQUIVALENT: Final = Path(__file__).parent / "equivalent.toml"
KILLED_PERCENT_MIN: Final = 90.0
SEED_BITS: Final = 32


USAGE: Final = """\
python -m tests.mutants takes no arguments; variables of the environment say what to do:
  MUTANTS=300          how many bugs
  MUTANTS_SEED=7       the bugs of that seed; otherwise a new one, or that of an unfinished run
  MUTANTS_WORKERS=2    copies at a time"""


def main() -> int:
    """Run, and return the exit code: 1 if too many survive, 2 for arguments."""
    if len(sys.argv) > 1:
        print(USAGE)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    number = int(os.environ.get("MUTANTS", "300"))
    workers = int(os.environ.get("MUTANTS_WORKERS", "2"))
    KEPT.mkdir(exist_ok=True)
    seed = _seed(KEPT / "unfinished")
    tree = CommittedTree.of_head(REPOSITORY)
    again = f"MUTANTS_SEED={seed} MUTANTS={number} make mutants"
    print(f"one-line bugs in {tree.commit}; the same again, or further: {again}")
    if tree.differs:
        print("changes that are not committed are not in it")
    results = Results(KEPT / f"results-{seed}.jsonl", tree)
    packages = sorted({source.partition("/")[0] for room in ROOMS for source in room.sources})
    lines = RecordedLines(KEPT / "lines", tree, packages)
    with Workplace(tree) as place:
        drawn = draw(place.root, ROOMS, seed, number, equivalent_bugs(place.root, EQUIVALENT))
        is_finished = all(results.of(bug) for _, bug in drawn)
        try:
            if not is_finished:
                files = recorded_files(place.root)
                for message in lines.record(place, files):
                    print(message, flush=True)
                lines.load(place.root, files)
                Hunt(tree, seed, lines, results).run(drawn, workers)
        except KeyboardInterrupt:
            print(f"interrupted; to go on: {again}")
        else:
            (KEPT / "unfinished").unlink(missing_ok=True)
    texts, percent = report(drawn, results)
    print("\n".join(texts))
    return 0 if percent >= KILLED_PERCENT_MIN else 1


def _seed(unfinished: Path) -> int:
    """Return the seed that was asked for, that of an interrupted run, or a new one."""
    kept = unfinished.read_text() if unfinished.exists() else str(random.getrandbits(SEED_BITS))
    seed = int(os.environ.get("MUTANTS_SEED", kept))
    unfinished.write_text(str(seed))
    return seed


if __name__ == "__main__":
    sys.exit(main())
