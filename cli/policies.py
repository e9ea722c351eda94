"""The commands `amqp-server policies` and `amqp-server operator-policies`."""

from pathlib import Path
from typing import Any, Final

import click
import orjson

from amqp_server.broker.policies.policy import ApplyTo
from cli.control import EXIT_CODES, ask_server, check_utf8, storage_path_option
from cli.display import shown

_HELP: Final = {"help_option_names": ["-h", "--help"]}
_APPLY_TO: Final = [each.value for each in ApplyTo]


def _group(family: str, noun: str, about: str) -> click.Group:
    """Return the commands of one kind of policy.

    Args:
        family: Prefix of the commands of the control socket.
        noun: What one policy is called in texts.
        about: Help of the whole group.
    """
    name = family.replace("_", "-")

    @click.group(
        name,
        invoke_without_command=True,
        context_settings=_HELP,
        help=about,
        epilog=(
            f"Examples: amqp-server {name} set short '^tmp\\.' '{{\"max-length\": 1000}}'; "
            f"amqp-server {name} list --json; amqp-server {name} clear short. {EXIT_CODES}"
        ),
    )
    @click.pass_context
    def group(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            raise click.UsageError("write what to do: set, list or clear")

    @group.command("list", context_settings=_HELP, epilog=EXIT_CODES)
    @click.option("--vhost", default="", callback=check_utf8, help="Virtual host.  [default: all]")
    @click.option("--json", "as_json", is_flag=True, help="Write a JSON array of objects.")
    @storage_path_option
    def list_all(storage_path: Path, vhost: str, *, as_json: bool) -> int:
        """List the policies, by virtual host and name."""
        found = ask_server(storage_path, f"{family}.list", vhost=vhost)
        if as_json:
            click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
            return 0
        click.echo(_row("PRIORITY", "APPLY-TO", "VHOST", "NAME", "PATTERN", "DEFINITION"))
        for policy in found:
            definition = orjson.dumps(policy["definition"]).decode()
            click.echo(
                _row(
                    str(policy["priority"]),
                    policy["apply-to"],
                    shown(policy["vhost"]),
                    shown(policy["name"]),
                    shown(policy["pattern"]),
                    shown(definition),
                )
            )
        return 0

    @group.command("set", context_settings=_HELP, epilog=EXIT_CODES)
    @click.argument("name", callback=check_utf8)
    @click.argument("pattern", callback=check_utf8)
    @click.argument("definition", callback=_json_object)
    @click.option(
        "--vhost", default="/", show_default=True, callback=check_utf8, help="Virtual host."
    )
    @click.option(
        "--priority",
        type=int,
        default=0,
        show_default=True,
        help="The policy with the highest priority counts.",
    )
    @click.option(
        "--apply-to",
        type=click.Choice(_APPLY_TO),
        default=ApplyTo.ALL.value,
        show_default=True,
        help="What it applies to.",
    )
    @storage_path_option
    def set_one(
        storage_path: Path,
        name: str,
        pattern: str,
        definition: dict[str, Any],
        vhost: str,
        priority: int,
        apply_to: str,
    ) -> int:
        """Set the policy NAME for queues and exchanges whose names match PATTERN.

        PATTERN is a regular expression, found anywhere in a name. DEFINITION is a JSON object. The
        policy is on the disk and applied when this returns.
        """
        is_new = ask_server(
            storage_path,
            f"{family}.set",
            vhost=vhost,
            name=name,
            pattern=pattern,
            apply_to=apply_to,
            priority=priority,
            definition=definition,
        )
        click.echo(
            f"{'added' if is_new else 'changed'} {noun} '{shown(name)}' in vhost '{shown(vhost)}'"
        )
        return 0

    @group.command("clear", context_settings=_HELP, epilog=EXIT_CODES)
    @click.argument("name", callback=check_utf8)
    @click.option(
        "--vhost", default="/", show_default=True, callback=check_utf8, help="Virtual host."
    )
    @storage_path_option
    def clear(storage_path: Path, name: str, vhost: str) -> int:
        """Remove the policy NAME; queues and exchanges lose what it gave them."""
        ask_server(storage_path, f"{family}.clear", vhost=vhost, name=name)
        click.echo(f"cleared {noun} '{shown(name)}' in vhost '{shown(vhost)}'")
        return 0

    return group


def _json_object(_ctx: click.Context, _param: click.Parameter, text: str) -> dict[str, Any]:
    """Return the JSON object in an argument.

    Raises:
        click.BadParameter: The text is no JSON object.
    """
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as error:
        raise click.BadParameter(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.BadParameter('not a JSON object, such as {"max-length": 1000}')
    return value


def _row(*cells: str) -> str:
    priority, apply_to, vhost, name, pattern, definition = cells
    return f"{priority:>8}  {apply_to:<14}  {vhost:<8}  {name:<16}  {pattern:<16}  {definition}"


policies: Final = _group(
    "policies",
    "policy",
    "List, set and clear policies of the running server.\n\n"
    "A policy gives settings to all queues and exchanges whose names match its pattern, also to "
    "those that exist already. Of several that match, the one with the highest priority counts.",
)
operator_policies: Final = _group(
    "operator_policies",
    "operator policy",
    "List, set and clear the operator's policies of the running server.\n\n"
    "An operator's policy sets bounds that no user's policy or argument exceeds: of two limits the "
    "lower one counts.",
)
