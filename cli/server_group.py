"""`amqp-server` as a group of commands; without a subcommand it starts the broker."""

from typing import Any, Final

import click

from cli.commands import COMMANDS
from cli.option_groups import GroupedOptions
from cli.settings import ServerOption, note_subcommand

PROGRAM: Final = "amqp-server"


class ServerGroup(GroupedOptions):
    """The broker itself, with subcommands that have options of their own.

    It refuses an option of the server before a subcommand, which would be ignored.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands, in the order of the help page."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand; return None if there is none of that name."""
        lazy = COMMANDS.get(cmd_name)
        return lazy.load() if lazy else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options, after checking whether a subcommand follows them.

        Raises:
            click.UsageError: An option of the server precedes a subcommand.
        """
        given, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        if rest and rest[0] in COMMANDS:
            note_subcommand(ctx)
            self._refuse_server_options(given, rest[0])
        return super().parse_args(ctx, args)

    def _refuse_server_options(self, given: dict[str, Any], command: str) -> None:
        for param in self.params:
            if isinstance(param, ServerOption) and param.name in given:
                option = f"--{param.key}"
                raise click.UsageError(
                    f"{option} before '{command}' is an option of the server, which does not "
                    f"start: write '{command}' first if it is meant for that "
                    f"({PROGRAM} {command} {option} ...)"
                )
