"""What users see is what `seen/` says; who changes it on purpose writes the files again."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.frozen.normal_form import normal_form
from tests.frozen.seen import KEPT, texts


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return texts(tmp_path_factory.mktemp("frozen"))


@pytest.mark.parametrize("name", sorted(path.name for path in KEPT.iterdir()))
def test_users_see_the_same(seen: dict[str, str], name: str) -> None:
    kept = (KEPT / name).read_text().splitlines()
    differences = list(unified_diff(kept, seen[name].splitlines(), name, "now", lineterm="", n=1))
    assert not differences, (
        "users see something else than before; if that is meant: python -m tests.frozen\n"
        + "\n".join(differences)
    )


def test_every_text_has_its_file(seen: dict[str, str]) -> None:
    assert sorted(seen) == sorted(path.name for path in KEPT.iterdir())


def test_what_differs_from_run_to_run_is_replaced(tmp_path: Path) -> None:
    line = (
        f"2026-11-28T06:30:01.123Z pid=7 127.0.0.1:5672 {tmp_path}/data took 0.25 s "
        "6f9619ff-8b86-d011-b42d-00cf4fc964ff os:0/root"
    )
    assert normal_form(line, tmp_path) == (
        "<time> pid=<number> <address> <place>/data took <duration> <uuid> <administrator>"
    )


def test_all_else_is_kept() -> None:
    line = "queue 'orders' in vhost '/': 12 messages, x-max-length 1000"
    assert normal_form(line) == line
