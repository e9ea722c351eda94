"""Short and long strings, the two primitives of AMQP with variable length.

A short string is one octet of length and that many bytes; a long string has four octets of length.
Short strings become `str`, so that names can be compared and printed. Bytes that are not UTF-8
become escaped surrogates and are sent back unchanged.

Source: AMQP 0-9-1 specification, section 4.2.5.3.
"""

from struct import Struct

from amqp_server.protocol.errors import FieldSyntaxError

SHORTSTR_BYTES_MAX = 255
_LENGTH = Struct(">I")


def decode_shortstr(data: bytes, position: int) -> tuple[str, int]:
    """Decode the short string at a position; return it and the position after it.

    Raises:
        FieldSyntaxError: The data ends before the string does.
    """
    if position >= len(data):
        raise FieldSyntaxError(f"short string at byte {position} has no length")
    start = position + 1
    end = start + data[position]
    if end > len(data):
        raise FieldSyntaxError(f"short string at byte {position} passes the end of the data")
    return data[start:end].decode("utf-8", "surrogateescape"), end


def encode_shortstr(text: str) -> bytes:
    """Return one octet of length and the UTF-8 bytes of a text.

    Raises:
        FieldSyntaxError: The text exceeds 255 bytes or cannot be encoded as UTF-8.
    """
    try:
        encoded = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise FieldSyntaxError(f"text is not Unicode: {error.reason}") from error
    if len(encoded) > SHORTSTR_BYTES_MAX:
        raise FieldSyntaxError(f"short string of {len(encoded)} bytes passes {SHORTSTR_BYTES_MAX}")
    return bytes((len(encoded),)) + encoded


def decode_longstr(data: bytes, position: int) -> tuple[bytes, int]:
    """Decode the long string at a position; return a copy of it and the position after it.

    Raises:
        FieldSyntaxError: The data ends before the string does.
    """
    start = position + _LENGTH.size
    if start > len(data):
        raise FieldSyntaxError(f"long string at byte {position} has no length")
    end = start + _LENGTH.unpack_from(data, position)[0]
    if end > len(data):
        raise FieldSyntaxError(f"long string at byte {position} passes the end of the data")
    return data[start:end], end


def encode_longstr(value: bytes) -> bytes:
    """Return four octets of length and the bytes of value."""
    return _LENGTH.pack(len(value)) + value
