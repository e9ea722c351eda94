"""Argument types of AMQP methods, and the codec that is built from a method's fields.

A method is a class with one annotated field for each argument, in the order of the wire:

    @method("basic.ack", 60, 80)
    class BasicAck(Method):
        delivery_tag: LongLong = 0
        multiple: Bit = False

`method` makes it a slotted dataclass, whose instances must not be changed, and converts the
annotations to a layout once. Consecutive fixed-width numbers are one `struct`; consecutive bits
share octets from the lowest bit up.

Source: AMQP 0-9-1 specification, sections 4.2.4 (method payload) and 4.2.5 (arguments).
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import (
    Annotated,
    Any,
    ClassVar,
    Protocol,
    Self,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.strings import (
    decode_longstr,
    decode_shortstr,
    encode_longstr,
    encode_shortstr,
)
from amqp_server.protocol.tables import Table, decode_table, encode_table

_METHOD_ID = struct.Struct(">HH")
METHOD_ID_BYTES = _METHOD_ID.size
_BITS_PER_OCTET = 8
_SURROGATE = re.compile("[\udc80-\udcff]")
"""Surrogates that stand for octets which are not UTF-8."""


class ArgumentType(Enum):
    """Type of an argument on the wire; fixed-width numbers have their `struct` letter."""

    OCTET = "B"
    SHORT = "H"
    LONG = "I"
    LONGLONG = "Q"
    BIT = "bit"
    SHORTSTR = "shortstr"
    LONGSTR = "longstr"
    TABLE = "table"


Octet = Annotated[int, ArgumentType.OCTET]
"""Unsigned 8-bit integer."""
Short = Annotated[int, ArgumentType.SHORT]
"""Unsigned 16-bit integer."""
Long = Annotated[int, ArgumentType.LONG]
"""Unsigned 32-bit integer."""
LongLong = Annotated[int, ArgumentType.LONGLONG]
"""Unsigned 64-bit integer."""
Bit = Annotated[bool, ArgumentType.BIT]
"""One bit; neighbouring bits share an octet."""
ShortStr = Annotated[str, ArgumentType.SHORTSTR]
"""At most 255 bytes of UTF-8; other bytes are kept as escaped surrogates."""
LongStr = Annotated[bytes, ArgumentType.LONGSTR]
"""Any bytes."""
FieldTable = Annotated[Table, ArgumentType.TABLE]
"""A field table."""


class Step(Protocol):
    """Consecutive arguments that are decoded and encoded together."""

    def decode(self, data: bytes, position: int, into: list[Any]) -> int:
        """Append the decoded values to `into`; return the position after them."""

    def encode(self, values: list[Any]) -> bytes:
        """Return the bytes of the values; there must be exactly one for each argument."""


class Method:
    """An AMQP method: its arguments are its fields, its identity is in its class.

    Attributes:
        name: Class and method as the specification writes them, such as `"queue.declare"`.
        class_id: Id of the AMQP class.
        method_id: Id of the method in that class.
        ids: Class id and method id.
        identity: The same ids as the four octets with which the payload of a method frame begins.
        has_content: Whether a content header and body follow the method.
    """

    __slots__ = ()

    name: ClassVar[str]
    class_id: ClassVar[int]
    method_id: ClassVar[int]
    ids: ClassVar[tuple[int, int]]
    identity: ClassVar[bytes]
    has_content: ClassVar[bool]
    _layout: ClassVar[tuple[tuple[tuple[str, ...], Step], ...]]
    _short_strings: ClassVar[tuple[str, ...]]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        values = zip(fields(self), self._values(), strict=True)  # type: ignore[arg-type]
        texts = ", ".join(f"{each.name}={value!r}" for each, value in values)
        return f"{type(self).__name__}({texts})"

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for names, _ in self._layout for name in names])

    @property
    def is_utf8(self) -> bool:
        """Whether every short string among the arguments is UTF-8."""
        for name in self._short_strings:
            value: str = getattr(self, name)
            if not value.isascii() and _SURROGATE.search(value):
                return False
        return True

    def encode(self) -> bytes:
        """Return the payload of a method frame: class id, method id, arguments.

        Raises:
            FieldSyntaxError: A value does not fit its argument type.
        """
        parts = [self.identity]
        try:
            for names, step in self._layout:
                parts.append(step.encode([getattr(self, name) for name in names]))
        except struct.error as error:
            raise FieldSyntaxError(
                f"{self.name}: {error}", self.class_id, self.method_id
            ) from error
        except FieldSyntaxError as error:
            raise error.with_method(self.class_id, self.method_id) from None
        return b"".join(parts)

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Decode the arguments from the payload of a frame with this method.

        Raises:
            FieldSyntaxError: The arguments end too early or too late, or are malformed.
        """
        values: list[Any] = []
        position = METHOD_ID_BYTES
        try:
            for _, step in cls._layout:
                position = step.decode(payload, position, values)
        except struct.error as error:
            raise FieldSyntaxError(
                f"{cls.name}: arguments are cut short", cls.class_id, cls.method_id
            ) from error
        except FieldSyntaxError as error:
            raise error.with_method(cls.class_id, cls.method_id) from None
        if position != len(payload):
            excess = len(payload) - position
            raise FieldSyntaxError(
                f"{cls.name}: {excess} bytes after the arguments", cls.class_id, cls.method_id
            )
        return cls(*values)


MethodClass = TypeVar("MethodClass", bound=Method)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def method(
    name: str, class_id: int, method_id: int, *, has_content: bool = False
) -> Callable[[type[MethodClass]], type[MethodClass]]:
    """Make a class of annotated arguments an AMQP method.

    Args:
        name: Class and method as the specification writes them.
        class_id: Id of the AMQP class.
        method_id: Id of the method in that class.
        has_content: Whether a content header and body follow the method.
    """

    def build(cls: type[MethodClass]) -> type[MethodClass]:
        # dataclass compiles the source of each generated method in every process that starts: for
        # seventy classes that takes most of the time. So `Method` has eq and repr. The type checker
        # ensures that no code assigns to a field, which replaces `frozen`.
        built = dataclass(slots=True, eq=False, repr=False)(cls)
        built.name = name
        built.class_id = class_id
        built.method_id = method_id
        built.ids = int(class_id), method_id
        built.identity = _METHOD_ID.pack(class_id, method_id)
        built.has_content = has_content
        built._layout = _compile(built)
        short_string = _SINGLES[ArgumentType.SHORTSTR]
        built._short_strings = tuple(
            name for (name, *_), step in built._layout if step is short_string
        )
        return built

    return build


class _Numbers:
    """Consecutive fixed-width integers."""

    def __init__(self, letters: str) -> None:
        self._struct = struct.Struct(">" + letters)

    def decode(self, data: bytes, position: int, into: list[Any]) -> int:
        into.extend(self._struct.unpack_from(data, position))
        return position + self._struct.size

    def encode(self, values: list[Any]) -> bytes:
        return self._struct.pack(*values)


class _Bits:
    """Consecutive bits, the first in the lowest bit of the first octet."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._octets = (count + _BITS_PER_OCTET - 1) // _BITS_PER_OCTET

    def decode(self, data: bytes, position: int, into: list[Any]) -> int:
        end = position + self._octets
        if end > len(data):
            raise FieldSyntaxError("bits are cut short")
        packed = int.from_bytes(data[position:end], "little")
        into.extend([bool(packed >> bit & 1) for bit in range(self._count)])
        return end

    def encode(self, values: list[Any]) -> bytes:
        packed = 0
        for bit, value in enumerate(values):
            if value:
                packed |= 1 << bit
        return packed.to_bytes(self._octets, "little")


class _Single:
    """One argument of variable length."""

    def __init__(
        self,
        decode: Callable[[bytes, int], tuple[Any, int]],
        encode: Callable[[Any], bytes],
    ) -> None:
        self._decode = decode
        self._encode = encode

    def decode(self, data: bytes, position: int, into: list[Any]) -> int:
        value, position = self._decode(data, position)
        into.append(value)
        return position

    def encode(self, values: list[Any]) -> bytes:
        return self._encode(values[0])


_NUMBERS = (ArgumentType.OCTET, ArgumentType.SHORT, ArgumentType.LONG, ArgumentType.LONGLONG)
_SINGLES = {
    ArgumentType.SHORTSTR: _Single(decode_shortstr, encode_shortstr),
    ArgumentType.LONGSTR: _Single(decode_longstr, encode_longstr),
    ArgumentType.TABLE: _Single(decode_table, encode_table),
}


def _compile(cls: type[Any]) -> tuple[tuple[tuple[str, ...], Step], ...]:
    """Convert the annotations of a method's fields to steps with the names of their fields."""
    hints = get_type_hints(cls, include_extras=True)
    runs: list[tuple[list[str], list[ArgumentType]]] = []
    for argument in fields(cls):
        argument_type = hints[argument.name].__metadata__[0]
        if runs and _share_a_run(runs[-1][1][-1], argument_type):
            names, types = runs[-1]
            names.append(argument.name)
            types.append(argument_type)
        else:
            runs.append(([argument.name], [argument_type]))
    return tuple((tuple(names), _step(types)) for names, types in runs)


def _share_a_run(one: ArgumentType, other: ArgumentType) -> bool:
    both_bits = one is ArgumentType.BIT and other is ArgumentType.BIT
    return both_bits or (one in _NUMBERS and other in _NUMBERS)


def _step(types: list[ArgumentType]) -> Step:
    if types[0] in _NUMBERS:
        return _Numbers("".join(argument_type.value for argument_type in types))
    if types[0] is ArgumentType.BIT:
        return _Bits(len(types))
    return _SINGLES[types[0]]
