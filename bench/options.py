"""Options of the command line that several benchmarks share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "show_default": True}
"""Settings of each command with sub-commands."""

INTERRUPT_STATUS: Final = 130
"""Exit status after Ctrl-C."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Names(click.ParamType[list[str]]):
    """Names from a list, separated by commas.

    Args:
        known: Names that exist.
    """

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


def data_dir_option(
    what: str, default: Path | Callable[[], str] = Path()
) -> Callable[[_Command], _Command]:
    """Return the option `--data-dir`.

    Args:
        what: What the directory holds, a plural, for the help text.
        default: Default directory, or a function that returns it.
    """
    return click.option(
        "--data-dir",
        # Absolute: servers run in another current directory.
        type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
        default=default,
        help=f"Directory for {what}. Use a disk: in memory, fsync costs nothing.",
    )


json_option: Final = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="File for all figures of all runs.",
)
"""The option `--json`."""
