"""The kernels that make columns write inside their buffers only, and are chosen as told."""

import sys
from array import array
from types import ModuleType

import pytest

from appendlog.layout import _columns_c, _columns_py, _tables_c, _tables_py
from appendlog.layout.columns import (
    INTERPRETED,
    KEY,
    TEXT_VALUES,
    VALUE,
    Kernels,
    load_kernels,
)
from tests.spark.builders import plain_messages, records_of

COMPILED = Kernels(_columns_c, _tables_c)
kernels = pytest.mark.parametrize("kernel", [_columns_c, _columns_py], ids=["compiled", "pure"])


def arguments(rows: int = 2, room: int = 8) -> list[object]:
    """Return what `find_fields` is called with for keys and values."""
    records = records_of(plain_messages(rows))
    ends = memoryview(bytearray(2 * room * 4)).cast("i")
    starts, bits = array("q", [0]) * (2 * room), bytearray(5 * room // 8)
    numbers = memoryview(bytearray(4 * room)).cast("h")
    times = memoryview(bytearray(8 * room)).cast("q")
    wanted = (array("i", [KEY, VALUE]), array("i", [1, 0]), True)
    places = (starts, ends, bits, numbers, times, bytearray())
    return [records.buffer, records.positions, records.lengths, 0, 0, room, *wanted, *places]


@kernels
@pytest.mark.parametrize(
    ("at", "value"),
    [
        (2, array("I", [1])),
        (2, array("I", [60, 10_000])),
        (3, -1),
        (4, -1),
        (4, 6),
        (5, 4),
        (5, 9),
        (5, 0),
        (5, 16),
        (6, array("i", [KEY, 18])),
        (6, array("i", [-1, KEY])),
        (7, array("i", [1])),
        (9, array("q", [0])),
        (10, memoryview(bytearray(60)).cast("i")),
        (11, bytearray(4)),
        (12, memoryview(bytearray(8)).cast("h")),
        (13, memoryview(bytearray(8)).cast("q")),
    ],
)
def test_places_that_are_too_few_are_refused(kernel: ModuleType, at: int, value: object) -> None:
    given_arguments = arguments()
    assert kernel.find_fields(*given_arguments) == (0, -1)
    given_arguments[at] = value
    with pytest.raises(ValueError, match=r"room|inside|field"):
        kernel.find_fields(*given_arguments)


@kernels
def test_a_column_of_more_than_2_gib_is_refused(kernel: ModuleType) -> None:
    given_arguments = arguments()
    ends = given_arguments[10]
    assert isinstance(ends, memoryview)
    ends[0] = (1 << 31) - 10
    with pytest.raises(ValueError, match="2 GiB"):
        kernel.find_fields(*given_arguments)


@kernels
def test_fields_are_copied_only_inside_their_buffers(kernel: ModuleType) -> None:
    ends = memoryview(bytearray(12)).cast("i")
    ends[1], ends[2] = 3, 6
    target = memoryview(bytearray(6))

    def copy(data: bytes, starts: list[int], count: int = 2, size: int = 6) -> bytes:
        places = array("q", starts)
        kernel.copy_field(data, bytearray(b"xyz"), places, ends, 0, count, target[:size])
        return bytes(target)

    assert copy(b"abcdef", [3, ~0]) == b"defxyz"
    for wrong in ([4, 0], [0, ~1], [1 << 40, 0]):
        with pytest.raises(ValueError, match="inside"):
            copy(b"abcdef", wrong)
    for count, size in ((3, 6), (2, 5), (-1, 6)):
        with pytest.raises(ValueError, match="inside"):
            copy(b"abcdef", [0, 0], count, size)
    ends[1] = 7
    with pytest.raises(ValueError, match="inside"):
        copy(b"abcdefghi", [0, 0])


@pytest.mark.parametrize("kernel", [_tables_c, _tables_py], ids=["compiled", "pure"])
def test_tables_are_decoded_only_inside_their_buffers(kernel: ModuleType) -> None:
    ends = memoryview(bytearray(12)).cast("i")
    ends[1], ends[2] = 3, 6
    buffers = [memoryview(bytearray(64)) for _ in range(3)]
    numbers = [memoryview(bytearray(12)).cast("i") for _ in range(3)]

    def decode(data: bytes, starts: list[int], *rows: int) -> tuple[int, int]:
        status: tuple[int, int] = kernel.decode_tables(
            data,
            array("q", starts),
            ends,
            bytearray(b"\xff"),
            0,
            0,
            *rows,
            TEXT_VALUES,
            numbers[0],
            buffers[0],
            numbers[1],
            buffers[1],
            numbers[2],
            buffers[2],
            array("q", [0, 0, 0]),
        )
        return status

    table = b"\x01aV"
    assert decode(table * 2, [0, 3], 0, 2) == (0, 2)
    assert list(numbers[0]) == [0, 1, 2]
    with pytest.raises(ValueError, match="inside"):
        decode(table, [1, 0], 0, 1)
    with pytest.raises(ValueError, match="inside"):
        decode(table, [~0, 0], 0, 1)
    for rows in ((-1, 1), (0, 3)):
        with pytest.raises(ValueError, match="inside"):
            decode(table, [0, 0], *rows)


@kernels
def test_numbers_are_written_only_inside_their_buffer(kernel: ModuleType) -> None:
    target = memoryview(bytearray(24)).cast("q")
    kernel.fill_range(target, 1, 1 << 61, 2)
    assert list(target) == [0, 1 << 61, (1 << 61) + 1]
    kernel.fill_microseconds(target, 0, array("q", [-1, -1000, 1999]))
    assert list(target) == [-1, -1, 1]
    for at, count in ((-1, 1), (2, 2), (0, -1)):
        with pytest.raises(ValueError, match="inside"):
            kernel.fill_range(target, at, 0, count)
    with pytest.raises(ValueError, match="inside"):
        kernel.fill_microseconds(target, 2, array("q", [1, 2]))


@pytest.mark.parametrize(("built", "source"), [(_columns_c, _columns_py), (_tables_c, _tables_py)])
def test_the_compiled_kernel_is_compiled(built: ModuleType, source: ModuleType) -> None:
    assert not str(built.__file__).endswith(".py")
    assert str(source.__file__).endswith(".py")


@pytest.mark.parametrize("wish", ["AMQP_SERVER_PURE_PYTHON", "AMQP_SERVER_REQUIRE_COMPILED"])
def test_the_environment_chooses_the_build(monkeypatch: pytest.MonkeyPatch, wish: str) -> None:
    monkeypatch.delenv("AMQP_SERVER_PURE_PYTHON", raising=False)
    monkeypatch.setenv(wish, "1")
    is_pure = wish.endswith("PYTHON")
    assert load_kernels() == (INTERPRETED if is_pure else COMPILED, not is_pure)


@pytest.mark.parametrize("missing", ["_columns_c", "_tables_c"])
def test_without_a_compiled_build_the_interpreted_one_is_used_unless_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    for name in ("AMQP_SERVER_PURE_PYTHON", "AMQP_SERVER_REQUIRE_COMPILED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, f"appendlog.layout.{missing}", None)
    assert load_kernels() == (INTERPRETED, False)
    monkeypatch.setenv("AMQP_SERVER_REQUIRE_COMPILED", "1")
    with pytest.raises(ImportError):
        load_kernels()
