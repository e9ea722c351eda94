"""Directories of tries: gone when one succeeds, kept when it fails."""

from pathlib import Path

import pytest

from tests.faults import power_cuts
from tests.faults.power_cuts import own_root


@pytest.fixture(params=["memory", "disk"])
def try_path(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Name a directory for a try, which lies elsewhere or there."""
    memory = tmp_path / "memory"
    if request.param == "memory":
        memory.mkdir()
    monkeypatch.setattr(power_cuts, "_MEMORY", memory)
    return tmp_path / "try"


def test_nothing_is_left_of_a_try_that_succeeds(try_path: Path) -> None:
    before = list(try_path.parent.rglob("*"))
    with own_root(try_path) as root:
        (root / "data").mkdir()
        (root / "data" / "file").write_bytes(b"content")

    assert not root.exists()
    assert list(try_path.parent.rglob("*")) == before


def test_a_try_that_fails_is_kept_where_it_says(try_path: Path) -> None:
    roots = []

    def fail() -> None:
        with own_root(try_path) as root:
            roots.append(root)
            (root / "file").write_bytes(b"content")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        fail()
    assert raised.value.__notes__ == [f"left in {try_path}"]
    assert (try_path / "file").read_bytes() == b"content"
    assert roots == [try_path] or not roots[0].exists()


def test_a_small_memory_is_left_alone(try_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power_cuts, "_ROOM_BYTES", 1 << 60)
    with own_root(try_path) as root:
        assert root == try_path
