"""Choice between the compiled and the interpreted build of kernels, by the environment."""

import os
from collections.abc import Callable
from typing import TypeVar

KernelsT = TypeVar("KernelsT")


def chosen_build(
    load_compiled: Callable[[], KernelsT], interpreted: KernelsT
) -> tuple[KernelsT, bool]:
    """Return the kernels that the environment selects, and whether they are compiled.

    `AMQP_SERVER_PURE_PYTHON=1` selects the interpreted ones. Otherwise the compiled ones are used
    where they are there, and `AMQP_SERVER_REQUIRE_COMPILED=1` refuses to go on without them.

    Args:
        load_compiled: Imports the compiled kernels.
        interpreted: The interpreted kernels.

    Raises:
        ImportError: Compiled kernels are required, and one is missing.
    """
    if os.environ.get("AMQP_SERVER_PURE_PYTHON") == "1":
        return interpreted, False
    try:
        return load_compiled(), True
    except ImportError:
        if os.environ.get("AMQP_SERVER_REQUIRE_COMPILED") == "1":
            raise
        return interpreted, False
