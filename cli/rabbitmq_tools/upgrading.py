"""Verbs around an upgrade. One server has no other to wait for, so most have nothing to do."""

from __future__ import annotations

from cli.rabbitmq_tools.output import Message, Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call


def await_online_quorum_plus_one(call: Call) -> None:
    """Wait for nothing: no queue has a quorum of servers."""
    call.banner("Will wait for a quorum + 1 of nodes to be online for all quorum queues ...")
    call.ask("status")


def await_online_synchronized_mirror(call: Call) -> None:
    """Wait for nothing: no queue has mirrors."""
    call.banner("Will wait until every mirrored queue has a synchronised mirror ...")
    call.ask("status")


def post_upgrade(call: Call) -> Message:
    """Do nothing after an upgrade."""
    call.banner("Executing post upgrade operations ...")
    call.ask("status")
    return Message("Done.") if call.has_notes else Message("")


def drain(call: Call) -> None:
    """Close all connections, and let no client connect until `revive`."""
    call.banner(
        f"Will put node {call.node} into maintenance mode. The node will no longer serve any "
        "client traffic!"
    )
    call.ask("clients.suspend", reason="Node was put into maintenance mode")


def revive(call: Call) -> None:
    """Let clients connect again."""
    call.banner(
        f"Will put node {call.node} back into normal operating mode. The node will again serve "
        "client traffic!"
    )
    call.ask("clients.resume")


def check_if_node_is_quorum_critical(call: Call) -> Message:
    """Say that the check does not apply to one server."""
    call.banner(f"Checking if node {call.node} is critical for quorum of any quorum queues ...")
    return _alone(call)


def check_if_node_is_mirror_sync_critical(call: Call) -> Message:
    """Say that the check does not apply to one server."""
    call.banner(
        f"Checking if node {call.node} is critical for data availability of any classic mirrored "
        "queues ..."
    )
    return _alone(call)


def rebalance(call: Call) -> Rows:
    """Move nothing: there is one server."""
    kind = call.arguments[0]
    call.banner(f"Rebalancing {kind} queues by node ...")
    call.ask("status")
    return Rows(("Node name", "Number of quorum queues"), [])


def _alone(call: Call) -> Message:
    call.ask("status")
    text = f"Node {call.node} seems to be the only one in a single node cluster, the check does "
    return Message(text + "not apply")
