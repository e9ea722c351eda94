"""Verbs about verbs: `help` and `autocomplete`."""

from __future__ import annotations

import sys

from cli.rabbitmq_tools.failures import USAGE, ToolFailedError
from cli.rabbitmq_tools.output import Message
from cli.rabbitmq_tools.refusals import REASONS
from cli.rabbitmq_tools.verbs import VERBS, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cli.rabbitmq_tools.call import Call

GENERAL = "[--node <node>] [--longnames] [--quiet]"
_TITLES = {
    "helping": "Help",
    "node": "Server",
    "settings": "Settings",
    "users": "Users",
    "permissions": "Permissions",
    "vhosts": "Virtual hosts",
    "policies": "Policies",
    "parameters": "Parameters",
    "shovels": "Shovels",
    "limits": "Limits",
    "objects": "Queues, exchanges and bindings",
    "replicas": "Quorum queues and streams",
    "connections": "Connections, channels and consumers",
    "definitions": "Definitions",
    "health": "Checks of health",
    "certificates": "Certificates and TLS",
    "following": "Log and events",
    "report": "Report",
    "plugins": "Plugins",
    "upgrading": "Upgrade",
    "refusals": "Without a meaning here",
}
"""Headings of the families of verbs, in their order."""
_OPTIONS = """\
-?               --help         shows how a command is written
-n <node>        --node         name of the node in texts; the server is that of the data directory
-l               --longnames    accepted, without effect
-t <seconds>     --timeout      seconds that an answer may take
-q               --quiet        writes nothing but the result
-s               --silent       the same, and no header
-p <vhost>       --vhost        virtual host, for commands of one
                 --formatter    table, json, csv, pretty_table or erlang"""


def help(call: Call) -> Message:  # noqa: A001 - named as the verb
    """Show the commands, or how one of them is written."""
    if not call.arguments:
        return Message(about_tool(call.tool))
    name = call.arguments[0]
    verb = VERBS.get(name)
    if verb is None or call.tool not in verb.tools:
        raise ToolFailedError(USAGE, f"\nCommand '{name}' not found.")
    return Message(about_verb(call.tool, name))


def autocomplete(call: Call) -> Message | None:
    """List the commands that begin with a prefix."""
    found = [name for name in _names(call.tool) if name.startswith(call.arguments[0])]
    return Message("\n".join(found)) if found else None


def about_verb(tool: str, name: str) -> str:
    """Return how a verb is written, and what it does."""
    return (
        f"\n\x1b[1mUsage\x1b[0m\n\n{tool} {GENERAL} {VERBS[name].usage}\n\n{_summary(name)}.\n\n"
        f"\x1b[1mGeneral Options\x1b[0m\n\n{_OPTIONS}\n"
    )


def about_tool(tool: str) -> str:
    """Return the verbs of a tool, each with what it does."""
    return "\n".join(_about_tool(tool))


def near(tool: str, name: str) -> str | None:
    """Return the verb of a tool that is most like an unknown one; None if none is."""
    from difflib import get_close_matches

    found = get_close_matches(name, _names(tool), n=1, cutoff=0.8)
    return found[0] if found else None


def fail_unknown(tool: str, name: str) -> int:
    """Say that there is no such verb; return the exit code."""
    text = f"\nCommand '{name}' not found. \n"
    alike = near(tool, name)
    text += f"Did you mean '{alike}'? \n" if alike else about_tool(tool)
    sys.stderr.write(text + "\n")
    return USAGE


def _about_tool(tool: str) -> Iterator[str]:
    yield "\n\x1b[1mUsage\x1b[0m\n"
    yield (
        f"{tool} [--node <node>] [--timeout <timeout>] [--longnames] [--quiet] <command> "
        "[<command options>]\n"
    )
    yield "Available commands:\n"
    names = _names(tool)
    width = max(map(len, names))
    for family, title in _TITLES.items():
        if rows := [name for name in names if VERBS[name].family == family]:
            yield f"\x1b[1m{title}\x1b[0m:\n"
            yield from (f"   {name.ljust(width)}  {_summary(name)}" for name in rows)
            yield ""
    yield f"Use '{tool} help <command>' to learn more about a specific command"


def _names(tool: str) -> list[str]:
    return sorted(name for name, verb in VERBS.items() if tool in verb.tools)


def _summary(name: str) -> str:
    if name in REASONS:
        return f"Refused: {REASONS[name]}"
    verb: Verb = VERBS[name]
    return (verb.load().__doc__ or "").partition("\n")[0].removesuffix(".")
