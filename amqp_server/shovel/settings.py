"""Messages of the broker to the process of the shovels: a JSON object a line.

The first line is `ShovelSettings`. The others change the shovels:

    {"set": {"vhost": "/", "name": "s", "serial": 4, "value": {...}, "owner": null}}
    {"clear": {"vhost": "/", "name": "s"}}

`owner` is the user who has set the shovel, with the back end of the login: `{"user": "ann",
"backend": "internal"}`; null: an administrator.

The process reports states, each with the serial number that it was given, so that a report of an
earlier definition counts no more:

    {"shovel": {"vhost": "/", "name": "s", "serial": 4, "state": "running", ...}}
    {"shovel": {"vhost": "/", "name": "s", "serial": 4, "is_done": true}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import orjson

LINE_BYTES_MAX: Final = 1024 * 1024
"""Longest line of the broker; a definition of a shovel that is larger does not run."""


@dataclass(frozen=True, slots=True)
class ShovelSettings:
    """Settings of the process of the shovels.

    Attributes:
        broker_pid: Process id of the broker.
        host: Address of the listener for shovels.
        port: TCP port of that listener.
        secret: Password there; it is for this process alone.
        node_name: Name of the broker.
    """

    broker_pid: int
    host: str
    port: int
    secret: str
    node_name: str


def decode_settings(line: bytes) -> ShovelSettings:
    """Return the settings in a line of `ShovelProcess`."""
    return ShovelSettings(**orjson.loads(line))
