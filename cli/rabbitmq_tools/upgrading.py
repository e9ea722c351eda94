"""Verbs around an upgrade. One server has no other to wait for, so most have nothing to do."""

from __future__ import annotations

from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.output import Message, Rows
from cli.rabbitmq_tools.rows import rows_of
from cli.rabbitmq_tools.values import Atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

_KINDS = ("all", "classic", "quorum")


def await_online_quorum_plus_one(call: Call) -> Message:
    """Wait for nothing: no queue has a quorum of servers."""
    return _await(call, "Will wait for a quorum + 1 of nodes to be online for all quorum queues")


def await_online_synchronized_mirror(call: Call) -> Message:
    """Wait for nothing: no queue has mirrors."""
    return _await(
        call, "Will wait for a synchronised mirror be online for all classic mirrored queues"
    )


def post_upgrade(call: Call) -> Message:
    """Do nothing after an upgrade."""
    call.banner("Executing post upgrade tasks...")
    call.ask("probe")
    call.banner("Rebalancing queue masters...")
    columns = _leaders(call)
    shown = [
        f'{{"{name}", ' + (f':"{value}"}}' if isinstance(value, str) else f"{value}}}")
        for name, value in columns.items()
    ]
    return Message(f"[{', '.join(shown)}]" if columns else "")


def drain(call: Call) -> None:
    """Close all connections, and let no client connect until `revive`."""
    call.banner(
        f"Will put node {call.node} into maintenance mode. The node will no longer serve any "
        "client traffic!"
    )
    call.ask("listeners.suspend", reason="Node was put into maintenance mode")


def revive(call: Call) -> None:
    """Let clients connect again."""
    call.banner(
        f"Will put node {call.node} back into regular operating mode. The node will again serve "
        "client traffic and host primary queue replicas."
    )
    call.ask("listeners.resume")


def check_if_node_is_quorum_critical(call: Call) -> Message:
    """Say that the check does not apply to one server."""
    call.banner(f"Checking if node {call.node} is critical for quorum of any quorum queues ...")
    return _alone(call)


def check_if_node_is_mirror_sync_critical(call: Call) -> Message:
    """Say that the check does not apply to one server."""
    call.banner(
        f"Checking if node {call.node} is critical for data safety of any classic mirrored "
        "queues ..."
    )
    return _alone(call)


def rebalance(call: Call) -> Rows:
    """Move nothing: there is one server."""
    kind = call.arguments[0]
    if kind not in _KINDS:
        text = f"type {kind} is not supported. Try one of {', '.join(_KINDS)}."
        raise ToolFailedError(UNAVAILABLE, text)
    call.banner(f"Re-balancing leaders of {kind} queues...")
    columns = _leaders(call) if kind != "classic" else {}
    if "formatter" not in call.options:
        call.formatter = "pretty_table"
    if not columns:
        return Rows(("Output",), [["[]"]])
    return Rows(tuple(columns), [tuple(columns.values())])


def _leaders(call: Call) -> dict[str, object]:
    """Return how many leaders of queues this server has; nothing without quorum queues."""
    count = sum(row["type"] == "quorum" for row in rows_of(call, "queues"))
    if not count:
        return {}
    return {
        "Node name": Atom(call.node),
        "Number of quorum queues": count,
        "Number of replicated classic queues": 0,
    }


def _await(call: Call, what: str) -> Message:
    seconds = call.options.get("timeout", "120")
    call.banner(f"{what} for {seconds} seconds...")
    call.ask("probe")
    return Message(
        "Target node seems to be the only one in a single node cluster, the command does not apply"
    )


def _alone(call: Call) -> Message:
    call.ask("probe")
    text = f"Node {call.node} seems to be the only one in a single node cluster, the check does "
    return Message(text + "not apply")
