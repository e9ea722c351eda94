"""The fields of a form in a request (multipart/form-data).

Source: RFC 7578. The body is bounded and whole in memory, so the parser needs no stream.
"""

from __future__ import annotations

from email.message import Message
from typing import Final

FIELDS_MAX: Final = 100
"""Fields of a form."""
_HEAD_BYTES_MAX: Final = 8192
"""Longest head of a field."""


class FormError(Exception):
    """The octets are no form; the text is one line."""


def form_fields(content_type: str, body: bytes) -> dict[str, bytes]:
    """Return the values of a form by their names; of several with one name the last.

    Args:
        content_type: Header of the request, which names the boundary.
        body: Whole body.

    Raises:
        FormError: The body is no form.
    """
    boundary = _parameter(content_type, "boundary")
    if not boundary:
        raise FormError("the form has no boundary")
    mark = b"--" + boundary.encode("latin-1", "replace")
    # The first boundary has no line before it.
    parts = (b"\r\n" + body).split(b"\r\n" + mark, FIELDS_MAX + 2)
    if len(parts) < 3 or not parts[-1].startswith(b"--"):
        raise FormError(f"the form does not end, or has more than {FIELDS_MAX} fields")
    found: dict[str, bytes] = {}
    for part in parts[1:-1]:
        head, blank, value = part.partition(b"\r\n\r\n")
        if not blank or len(head) > _HEAD_BYTES_MAX:
            raise FormError("a field of the form has no head")
        for line in head.split(b"\r\n"):
            name, _, text = line.decode("utf-8", "replace").partition(":")
            if name.strip().lower() == "content-disposition":
                found[_parameter(text, "name")] = value
    return found


def _parameter(header: str, name: str) -> str:
    message = Message()
    message["content-type"] = header.strip()
    value = message.get_param(name)
    return value if isinstance(value, str) else ""
