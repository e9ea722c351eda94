"""The kernel that counts bodies by size: the compiled build if there is one, as in `framing`."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from amqp_server.protocol import _body_sizes_py

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["count_bodies"]


def _load() -> ModuleType:
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") != "1":
        try:
            return import_module("amqp_server.protocol._body_sizes_c")
        except ImportError:
            if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
                raise
    return _body_sizes_py


count_bodies = _load().count_bodies
