"""The verb `report`: everything that a person who helps from afar asks for."""

from __future__ import annotations

import sys

from cli.rabbitmq_tools.call import Call
from cli.rabbitmq_tools.failures import ToolFailedError
from cli.rabbitmq_tools.output import lines
from cli.rabbitmq_tools.verbs import VERBS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_SERVER: Sequence[tuple[str, ...]] = (
    ("status",),
    ("cluster_status",),
    ("environment",),
    ("command_line_arguments",),
    ("os_env",),
    ("list_connections", "user", "name", "vhost", "state", "channels", "send_pend"),
    ("list_channels", "name", "user", "consumer_count", "messages_unacknowledged", "confirm"),
    ("list_node_auth_attempt_stats",),
)
_OF_VHOST: Sequence[tuple[str, ...]] = (
    (
        "list_queues",
        "name",
        "type",
        "durable",
        "messages_ready",
        "messages_unacknowledged",
        "consumers",
        "state",
        "policy",
    ),
    ("list_exchanges", "name", "type", "durable", "internal", "policy"),
    ("list_bindings",),
    ("list_permissions",),
    ("list_policies",),
    ("list_operator_policies",),
)


def report(call: Call) -> None:
    """Show everything at once, for people who help: no parameters, which may have passwords."""
    call.banner(f"Reporting server status of node {call.node} ...\n")
    for verb, *arguments in _OF_SERVER:
        _show(call, verb, arguments, call.vhost)
    for vhost in call.ask("vhosts.list"):
        for verb, *arguments in _OF_VHOST:
            _show(call, verb, arguments, str(vhost["name"]))


def _show(call: Call, verb: str, arguments: list[str], vhost: str) -> None:
    part = Call(call.line, call.server, call.node, call.tool)
    part.verb, part.arguments, part.vhost = verb, arguments, vhost
    try:
        result = VERBS[verb].load()(part)
    except ToolFailedError as failure:
        # The rest of the report may still help.
        sys.stdout.write(failure.text + "\n\n")
        return
    for line in lines(result, part.formatter, part.node, has_header=call.line.has_header):
        sys.stdout.write(line + "\n")
    sys.stdout.write("\n")
