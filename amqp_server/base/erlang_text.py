"""Shows a JSON value as RabbitMQ's texts do: as an Erlang term."""

from __future__ import annotations

import json


def erlang_text(value: object) -> str:
    """Return a JSON value as Erlang's `~p` shows what RabbitMQ makes of it.

    Texts are binaries, `<<"5">>`; those with other than printable ASCII characters are lists of
    octets, `<<195,164>>`. Objects are lists of pairs.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _binary(value)
        case list():
            return f"[{','.join(map(erlang_text, value))}]"
        case dict():
            pairs = (
                f"{{{_binary(str(name))},{erlang_text(each)}}}" for name, each in value.items()
            )
            return f"[{','.join(pairs)}]"
        case _:
            return json.dumps(value)


def _binary(text: str) -> str:
    if all(" " <= each <= "~" for each in text):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'<<"{escaped}">>'
    return f"<<{','.join(map(str, text.encode('utf-8', 'surrogateescape')))}>>"
