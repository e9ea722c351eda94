"""How long tests wait for what must come."""

from typing import Final

HANG_SECONDS: Final = 120
"""Limit of one wait, in seconds: a guard against hangs, which no busy machine may reach.

That of a whole test is longer (`timeout` in `pyproject.toml`). Only where a short limit is what a
test is about does the test name one of its own.
"""
