"""The kernel that sums sizes: the compiled build if there is one.

With `AMQP_SERVER_PURE_PYTHON=1` the interpreted source is used. With
`AMQP_SERVER_REQUIRE_COMPILED=1` the import fails without the compiled build. Both builds have the
same functions; the parity test compares them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from ring import _sizes_py

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["bytes_of", "count_within"]


def _load() -> ModuleType:
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") != "1":
        try:
            return import_module("ring._sizes_c")
        except ImportError:
            if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
                raise
    return _sizes_py


_sizes = _load()

bytes_of: Callable[[list[bytes]], int] = _sizes.bytes_of
count_within: Callable[[list[bytes], int], int] = _sizes.count_within
