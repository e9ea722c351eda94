"""The compiled build of the broker's loop: the modules that each message passes.

mypyc compiles them into one library, beside the kernels; `setup.py` lists them and builds it. The
library lies apart from the sources, and what this module installs loads the modules from there. So
one install has both forms, and a source that was edited after the build is never shadowed by it:
the library is used only if every source that it was compiled from is as it was.

With `AMQP_SERVER_PURE_PYTHON=1` the sources are used. With `AMQP_SERVER_REQUIRE_COMPILED=1` a
library that is missing or out of date is an error.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from hashlib import blake2b
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import ModuleType

_LIBRARY: Final = "amqp_server_loop__mypyc"
"""Name that its modules look it up by."""
_HERE: Final = Path(__file__).resolve().parent
_POINTER: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class CompiledLoop:
    """Which form of the loop this process runs.

    Attributes:
        is_used: Whether the modules are loaded from the library.
        reason: Why not; empty if they are, or nobody has asked yet.
        modules: Names of the modules that are loaded from the library; empty if none are.
    """

    def __init__(self) -> None:
        self.is_used = False
        self.reason = ""
        self.modules: frozenset[str] = frozenset()

    def use(self) -> bool:
        """Load the modules from the library from now on, if it is there and up to date.

        Call it before any of them is imported, which is before anything else of this project is. A
        second call changes nothing.

        Returns:
            Whether the library is used.

        Raises:
            ImportError: It is not, and a compiled build is required.
        """
        if self.is_used:
            return True
        modules, self.reason = _usable_modules()
        if self.reason:
            if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
                raise ImportError(f"the compiled loop cannot be used: {self.reason}")
            return False
        self.modules = frozenset(modules)
        sys.meta_path.insert(0, _LoopFinder(self.modules))
        self.is_used = True
        return True


loop: Final = CompiledLoop()
"""The form that this process runs."""


def _usable_modules() -> tuple[list[str], str]:
    """Return the modules of the library, and why they cannot be used: empty if they can."""
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        return [], "of AMQP_SERVER_PURE_PYTHON=1"
    if not _library_path().exists():
        return [], "it is not built"
    try:
        manifest = json.loads((_HERE / f"{_LIBRARY}.json").read_bytes())
        modules: list[str] = manifest["modules"]
        sources: dict[str, str] = manifest["sources"]
    except (OSError, ValueError, KeyError) as error:
        return [], f"its list of sources cannot be read: {error!r}"
    loaded = next((name for name in modules if name in sys.modules), None)
    if loaded is not None:
        return [], f"{loaded} was imported before"
    changed = next((path for path, digest in sources.items() if _digest(path) != digest), None)
    if changed is not None:
        return [], f"{changed} has changed since the build"
    return modules, ""


def _digest(path: str) -> str:
    try:
        octets = (_HERE.parent / path).read_bytes()
    except OSError:
        return ""
    return blake2b(octets, digest_size=16).hexdigest()


class _LoopFinder(MetaPathFinder):
    """Finds the modules of the library, before their sources are found."""

    def __init__(self, modules: Collection[str]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module of the library is loaded; None for any other."""
        if fullname not in self._modules:
            return None
        source = _HERE.parent.joinpath(*fullname.split(".")).with_suffix(".py")
        return spec_from_loader(fullname, _LoopLoader(), origin=str(source))


class _LoopLoader(Loader):
    """Loads a module from the library, which has a function for each."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, run to its end: mypyc's modules know no other way.

        The library offers its functions as capsules for modules that do nothing but call one.
        """
        library = sys.modules.get(_LIBRARY) or _load_library()
        name = f"init_{spec.name.replace('.', '___')}"
        capsule = getattr(library, name)
        address = _POINTER(capsule, f"{_LIBRARY}.{name}".encode())
        module: ModuleType = ctypes.PYFUNCTYPE(ctypes.py_object)(address)()
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: it has run."""


def _load_library() -> ModuleType:
    spec = spec_from_file_location(_LIBRARY, _library_path())
    assert spec is not None, "the suffix is that of a library"
    assert spec.loader is not None, "a library has a loader"
    library = module_from_spec(spec)
    sys.modules[_LIBRARY] = library
    spec.loader.exec_module(library)
    return library


def _library_path() -> Path:
    return _HERE / f"{_LIBRARY}{EXTENSION_SUFFIXES[0]}"
