"""The kernels that scan and write frames, and their events: the compiled build if there is one.

With `AMQP_SERVER_PURE_PYTHON=1` the interpreted sources are used. With
`AMQP_SERVER_REQUIRE_COMPILED=1` the import fails without the compiled build. `COMPILED` says which
build is in use. Both builds have the names and types of their sources `_events_py`, `_scanning_py`,
`_writing_py`, `_filtering_py` and `_headers_py`, which the last three use; the parity tests compare
them.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from amqp_server.protocol import (
    _events_py,
    _filtering_py,
    _headers_py,
    _scanning_py,
    _writing_py,
)
from amqp_server.protocol._scanning_py import CHECKED_PROPERTIES

if TYPE_CHECKING:
    from amqp_server.protocol._events_py import (
        AckRun,
        BrokenFrame,
        ContentBody,
        ContentHeader,
        Event,
        HeartbeatFrame,
        MethodFrame,
        PublishRow,
        PublishRun,
    )

__all__ = [
    "CHECKED_PROPERTIES",
    "COMPILED",
    "AckRun",
    "BrokenFrame",
    "ContentBody",
    "ContentHeader",
    "Event",
    "FrameScanner",
    "HeartbeatFrame",
    "MethodFrame",
    "PublishRow",
    "PublishRun",
    "checked_flags_of",
    "copies_in_headers",
    "delivery_mode_position",
    "encode_content",
    "encode_deliveries",
    "encode_run",
    "headers_position",
    "matching_messages",
    "matching_run",
    "property_list_end",
    "readable_end",
    "with_reply_to",
]


def _load() -> tuple[ModuleType, ModuleType, ModuleType, ModuleType, ModuleType, bool]:
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") != "1":
        try:
            events = import_module("amqp_server.protocol._events_c")
            headers = import_module("amqp_server.protocol._headers_c")
            scanning = import_module("amqp_server.protocol._scanning_c")
            writing = import_module("amqp_server.protocol._writing_c")
            filtering = import_module("amqp_server.protocol._filtering_c")
        except ImportError:
            if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
                raise
        else:
            return events, headers, scanning, writing, filtering, True
    return _events_py, _headers_py, _scanning_py, _writing_py, _filtering_py, False


_events, _headers, _scanning, _writing, _filtering, COMPILED = _load()

if not TYPE_CHECKING:
    AckRun = _events.AckRun
    BrokenFrame = _events.BrokenFrame
    ContentBody = _events.ContentBody
    ContentHeader = _events.ContentHeader
    Event = _events.Event
    HeartbeatFrame = _events.HeartbeatFrame
    MethodFrame = _events.MethodFrame
    PublishRow = _events.PublishRow
    PublishRun = _events.PublishRun

FrameScanner: type[_scanning_py.FrameScanner] = _scanning.FrameScanner
checked_flags_of = _scanning.checked_flags_of
copies_in_headers = _scanning.copies_in_headers
headers_position = _scanning.headers_position
property_list_end = _scanning.property_list_end
delivery_mode_position = _scanning.delivery_mode_position
encode_deliveries = _writing.encode_deliveries
encode_content = _writing.encode_content
encode_run = _writing.encode_run
matching_messages = _filtering.matching_messages
matching_run = _filtering.matching_run
readable_end = _headers.readable_end
with_reply_to = _headers.with_reply_to
