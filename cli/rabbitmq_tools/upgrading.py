"""Verbs around an upgrade. One server has no other to wait for, so most have nothing to do."""

from __future__ import annotations

from cli.rabbitmq_tools.output import Message, Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call


def await_online_quorum_plus_one(call: Call) -> Message:
    """Wait for nothing: no queue has a quorum of servers."""
    return _await(call, "Will wait for a quorum + 1 of nodes to be online for all quorum queues")


def await_online_synchronized_mirror(call: Call) -> Message:
    """Wait for nothing: no queue has mirrors."""
    return _await(call, "Will wait for synchronised mirrors of all classic mirrored queues")


def post_upgrade(call: Call) -> Message:
    """Do nothing after an upgrade."""
    call.banner("Executing post upgrade tasks...")
    call.ask("probe")
    call.banner("Rebalancing queue masters...")
    return Message("")


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
        f"Will put node {call.node} back into regular operating mode. The node will again serve "
        "client traffic and host primary queue replicas."
    )
    call.ask("clients.resume")


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
    call.banner(f"Re-balancing leaders of {call.arguments[0]} queues...")
    call.ask("probe")
    if "formatter" not in call.options:
        call.formatter = "pretty_table"
    return Rows(("Output",), [["[]"]])


def _await(call: Call, what: str) -> Message:
    call.banner(f"{what} for {call.seconds_max:.0f} seconds...")
    call.ask("probe")
    return Message(
        "Target node seems to be the only one in a single node cluster, the command does not apply"
    )


def _alone(call: Call) -> Message:
    call.ask("probe")
    text = f"Node {call.node} seems to be the only one in a single node cluster, the check does "
    return Message(text + "not apply")
