"""The generator's kernel: compiled if `kernel_build` has compiled it, otherwise interpreted."""

import importlib.util
from types import ModuleType
from typing import Final

from bench.traffic import _frames_py
from bench.traffic._frames_py import (
    ACK_BYTES,
    FIELD_DIGITS,
    NUMBER_BITS,
    PUBLISHER_BITS,
    SMALLEST_DELIVERY,
)
from bench.traffic.kernel_build import compiled_file

__all__ = [
    "ACK_BYTES",
    "COMPILED",
    "FIELD_DIGITS",
    "NUMBER_BITS",
    "PUBLISHER_BITS",
    "SMALLEST_DELIVERY",
    "ConfirmScanner",
    "DeliveryScanner",
    "SeenMessages",
    "mixed",
    "renew",
]


def _try_load() -> ModuleType | None:
    file = compiled_file()
    if not file.exists():
        return None
    spec = importlib.util.spec_from_file_location("bench.traffic._frames_c", file)
    assert spec is not None, "there is a loader for extensions"
    assert spec.loader is not None, "there is a loader for extensions"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ConfirmScanner = _frames_py.ConfirmScanner
DeliveryScanner = _frames_py.DeliveryScanner
SeenMessages = _frames_py.SeenMessages
mixed = _frames_py.mixed
renew = _frames_py.renew

_compiled: Final = _try_load()
COMPILED: Final = _compiled is not None
"""Whether the kernel is compiled."""
if _compiled is not None:
    ConfirmScanner = _compiled.ConfirmScanner  # type: ignore[misc]
    DeliveryScanner = _compiled.DeliveryScanner  # type: ignore[misc]
    SeenMessages = _compiled.SeenMessages  # type: ignore[misc]
    mixed = _compiled.mixed
    renew = _compiled.renew
