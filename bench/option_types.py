"""Types of options of the command line."""

from collections.abc import Sequence

import click


class Names(click.ParamType[list[str]]):
    """Names from a list, separated by commas."""

    name = "NAME,..."

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def convert(
        self, value: str | list[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> list[str]:
        """Split and check the names."""
        if not isinstance(value, str):
            return value
        names = [name.strip() for name in value.split(",") if name.strip()]
        unknown = [name for name in names if name not in self._known]
        if unknown or not names:
            self.fail(f"{', '.join(unknown) or 'no name'}; there are {', '.join(self._known)}")
        return names
