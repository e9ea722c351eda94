"""`amqp-server export` as a group: it exports, unless one of its subcommands follows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import click

from cli.commands import LazyCommand

SUBCOMMANDS: Final[Mapping[str, LazyCommand]] = MappingProxyType(
    {
        "status": LazyCommand(
            "cli.export_status", "status", "Show what an output has, and how far behind it is."
        ),
        "vacuum": LazyCommand(
            "cli.export_vacuum", "vacuum", "Remove what killed exports have left in an output."
        ),
        "verify": LazyCommand(
            "cli.export_verify", "verify", "Prove that an output is complete and whole."
        ),
    }
)
"""What else can be done with an output; imported only when it is called."""

ARGUMENTS: Final = "cli.export.arguments"
"""Where the context keeps what was given, as it was given."""


class ExportGroup(click.Group):
    """The export itself, with subcommands that own their options.

    An option of the export before a subcommand would be ignored, so it is refused.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the subcommands."""
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; None when there is none of that name."""
        lazy = SUBCOMMANDS.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        rows = [(name, SUBCOMMANDS[name].summary) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options, after a look at whether a subcommand follows them.

        Raises:
            click.UsageError: An option of the export stands before a subcommand, or what
                follows the options is none.
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
