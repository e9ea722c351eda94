"""What a program that uses the library gets wrong: an exception that says what was expected."""

from typing import Any

import pytest

from offsets import Consumer, LogRoot, ProcessOptions
from tests.embedded.consumers import consumer, fill


@pytest.mark.parametrize("bounds", [(0, 1), (-1, 1), (1, 0)])
def test_a_poll_for_nothing_is_refused_and_does_not_run_for_ever(
    root: LogRoot, bounds: tuple[int, int]
) -> None:
    fill(root, "events", 3)
    with consumer(root) as reader, pytest.raises(ValueError, match="is not positive"):
        reader.poll(*bounds)


@pytest.mark.parametrize("place", ["earliest", 5, None])
def test_a_place_that_is_no_position_is_called_so(root: LogRoot, place: Any) -> None:  # noqa: ANN401
    fill(root, "events", 3)
    with pytest.raises(TypeError, match=r"is not a Position: use one like Position\.EARLIEST"):
        Consumer(root.path, "other", "events", start=place)
    with consumer(root) as reader, pytest.raises(TypeError, match="is not a Position"):
        reader.seek(place)


@pytest.mark.parametrize("name", [5, b"g", None])
def test_a_group_that_is_no_text_is_called_so(root: LogRoot, name: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="is not a string"):
        Consumer(root.path, name)


def test_what_cannot_decide_about_errors_is_refused_before_there_is_one() -> None:
    with pytest.raises(TypeError, match="neither an OnError nor a function"):
        ProcessOptions(on_error="skip")  # type: ignore[arg-type]
