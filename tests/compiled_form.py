"""The compiled loop in the process of the tests: `python -m pytest -p tests.compiled_form`.

Tests that look inside run the loop's sources, because they replace functions, constants and parts.
With this plugin they run what users run. What that cannot do skips a test, which says why:

- a patch of something that compiled code does not look up: it would do nothing;
- a stand-in where compiled code wants the class itself;
- the mark `interpreted`, for anything else that compiled classes do not have.

Tests that ask for a server's process are left out: such a process runs the compiled loop anyway.
"""

from __future__ import annotations

import re
from functools import wraps
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import pytest

from amqp_server.compiled_loop import loop
from tests.looked_up_names import is_compiled_in

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

# Before any module of the loop is imported.
if not loop.use():
    pytest.exit(f"the compiled loop cannot be used: {loop.reason}", returncode=2)

_STAND_IN: Final = re.compile(
    r"(\S+)(?: or None|, list\])? object expected; got "
    r"(?:tuple\[)?(?:tests\.|types\.SimpleNamespace|object$)"
)
"""What compiled code says of one, after the name of the class that it wants."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of processes, and skip what is marked."""
    # It imports the loop, and must do so after this module.
    from tests.slices import has_process

    config.hook.pytest_deselected(items=[item for item in items if has_process(item)])
    items[:] = [item for item in items if not has_process(item)]
    for item in items:
        mark = item.get_closest_marker("interpreted")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"looks inside: {mark.args[0]}"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    """Skip a test whose fixtures have a stand-in."""
    return (yield from _without_stand_ins())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Skip a test that has a stand-in."""
    return (yield from _without_stand_ins())


def _without_stand_ins() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except TypeError as error:
        found = _STAND_IN.search(str(error))
        if found is None:
            raise
        pytest.skip(f"has a stand-in for {found[1].removeprefix('tuple[')}")


def _skip_without_effect(target: object, name: str) -> None:
    """Skip a test that would patch what compiled code does not look up."""
    owner = target if isinstance(target, type) else type(target)
    if isinstance(target, ModuleType):
        place = target.__name__
        is_fixed = place in loop.modules and is_compiled_in(place, name, loop.modules)
    else:
        place = f"{owner.__module__}.{owner.__qualname__}"
        is_attribute = target is not owner and hasattr(getattr(owner, name, None), "__set__")
        is_fixed = hasattr(owner, "__mypyc_attrs__") and not is_attribute
    if is_fixed:
        pytest.skip(f"patches {place}.{name}, which is compiled in")


def _with_effect(plain: Callable[..., None]) -> Callable[..., None]:
    """Return `setattr` of pytest's monkeypatch, for patches with an effect only."""

    @wraps(plain)
    def patch(
        self: pytest.MonkeyPatch, target: object, *arguments: object, **options: object
    ) -> None:
        if isinstance(target, str) and len(arguments) == 1:
            place, _, name = target.rpartition(".")
            _skip_without_effect(resolve_name(place), name)
        else:
            _skip_without_effect(target, str(arguments[0]))
        plain(self, target, *arguments, **options)

    return patch


def _entered_with_effect(plain: Callable[[Any], object]) -> Callable[[Any], object]:
    """Return the beginning of a patch of `unittest.mock`, for those with an effect only."""

    @wraps(plain)
    def enter(self: Any) -> object:  # noqa: ANN401 - its class has no public name
        _skip_without_effect(self.getter(), self.attribute)
        return plain(self)

    return enter


_MockPatch: Final[Any] = type(mock.patch("os.getcwd"))
pytest.MonkeyPatch.setattr = _with_effect(pytest.MonkeyPatch.setattr)  # type: ignore[method-assign]
_MockPatch.__enter__ = _entered_with_effect(_MockPatch.__enter__)
