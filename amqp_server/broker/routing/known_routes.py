"""The kernel that follows known routes: the compiled build if there is one.

With `AMQP_SERVER_PURE_PYTHON=1` the interpreted source is used. With
`AMQP_SERVER_REQUIRE_COMPILED=1` the import fails without the compiled build. Both builds have the
same names, documented in `_known_routes_py`; the parity test compares them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

from amqp_server.broker.routing import _known_routes_py

if TYPE_CHECKING:
    from types import ModuleType

    # The compiled classes have the same attributes.
    from amqp_server.broker.routing._known_routes_py import State, Step, known_end, known_route
else:

    def _load() -> ModuleType:
        if os.environ.get("AMQP_SERVER_PURE_PYTHON") != "1":
            try:
                return import_module("amqp_server.broker.routing._known_routes_c")
            except ImportError:
                if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
                    raise
        return _known_routes_py

    _kernel = _load()
    State, Step = _kernel.State, _kernel.Step
    known_end, known_route = _kernel.known_end, _kernel.known_route

__all__ = ["KNOWN_WORDS_MAX", "NAMED_MAX", "State", "Step", "known_end", "known_route"]

NAMED_MAX: Final = _known_routes_py.NAMED_MAX
"""Nodes of a state that may name the next word, up to which looking through them is quick."""
KNOWN_WORDS_MAX: Final = _known_routes_py.KNOWN_WORDS_MAX
"""Words of a key times exchanges on its way, up to which its known route is found quickly."""
