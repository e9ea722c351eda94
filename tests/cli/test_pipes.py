"""A pipe in place of a file of the data directory: nobody writes to it, nothing waits for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.main import main
from tests.data_directories import fill, log_of, segments_of

Find = Callable[[Path], Path]


@pytest.mark.parametrize(
    "find",
    [
        lambda storage: segments_of(storage, "a")[-1],
        lambda storage: segments_of(storage, "a")[-1].with_suffix(".index"),
        lambda storage: log_of(storage, "a") / "end",
        lambda storage: max((storage / "offsets").glob("checkpoint-*")),
        lambda storage: next((storage / "metadata" / "queues" / "%2f").glob("a.json")),
        lambda storage: storage / "FORMAT",
        lambda storage: storage / "LOCK",
        lambda storage: storage / "recovery.json",
    ],
    ids=["segment", "index", "end", "checkpoint", "definition", "FORMAT", "LOCK", "report"],
)
def test_nothing_waits_for_a_pipe(
    tmp_path: Path,
    clean_environment: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    find: Find,
) -> None:
    storage = tmp_path / "data"
    fill(storage, a=6, b=6)
    path = find(storage)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    for command in (
        ["verify"],
        ["stats"],
        ["inspect", "--queue", "a"],
        ["recover", "--last"],
        ["recover", "--dry-run"],
        ["repair", "--yes"],
        ["recover"],
    ):
        code = main([*command, "--storage-path", str(storage)])
        complaint = capsys.readouterr().err
        assert code in {0, 1, 2, 3, 4, 5}, command
        assert complaint.count("\n") <= 1, complaint
