"""`amqp-server export` as a group: runs the export, unless a subcommand follows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from cli.commands import LazyCommand

SUBCOMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "status": LazyCommand(
            "cli.export_status",
            "status",
            "Show the contents of an output, and how far behind it is.",
        ),
        "vacuum": LazyCommand(
            "cli.export_vacuum",
            "vacuum",
            "Remove files that killed exports have left in an output.",
        ),
        "verify": LazyCommand(
            "cli.export_verify", "verify", "Check that an output is complete and intact."
        ),
    }
)
"""Further commands for an output; imported only when one is called."""

ARGUMENTS: Final = "cli.export.arguments"
"""Key of the context under which the original arguments are stored."""


class ExportGroup(click.Group):
    """The export itself, with subcommands that have options of their own.

    It refuses an option of the export before a subcommand, which would be ignored.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; return None if there is none of that name."""
        lazy = SUBCOMMANDS.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        rows = [(name, SUBCOMMANDS[name].summary) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options, after checking whether a subcommand follows them.

        Raises:
            click.UsageError: An option of the export precedes a subcommand, or the text after the
                options is not a subcommand.
        """
        ctx.meta[ARGUMENTS] = tuple(args)
        given, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        if rest and rest[0] in SUBCOMMANDS:
            for param in self.params:
                if param.name in given:
                    raise click.UsageError(
                        f"{param.opts[0]} before '{rest[0]}' is an option of the export: "
                        f"write '{rest[0]}' first if it is meant for that"
                    )
        elif rest:
            raise click.UsageError(f"{rest[0]!r} is not expected here: options begin with --")
        return super().parse_args(ctx, args)
