"""Verbs of quorum queues and streams, of which this server has the only copy."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.output import Rows
from cli.rabbitmq_tools.values import Atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call


def quorum_status(call: Call) -> Rows:
    """Show the one copy of a quorum queue; of Raft it has nothing."""
    name = call.arguments[0]
    call.banner(f"Status of quorum queue {name} on node {call.node} ...")
    found = _queue(call, name)
    if found["type"] != "quorum":
        text = f"Cannot get quorum status of a {found['type']} queue"
        raise ToolFailedError(UNAVAILABLE, text)
    _as_pretty_table(call)
    undefined = Atom("undefined")
    values = {
        "Node Name": Atom(call.node),
        "Raft State": Atom("leader"),
        "Log Index": found["log_end_offset"],
        "Commit Index": found["log_end_offset"],
        "Snapshot Index": undefined,
        "Term": undefined,
        "Machine Version": undefined,
    }
    return Rows(tuple(values), [tuple(values.values())])


def stream_status(call: Call) -> Rows:
    """Show the one copy of a stream, or with `--tracking` the offsets of its groups."""
    name = call.arguments[0]
    call.banner(f"Status of stream {name} on node {call.node} ...")
    found = _queue(call, name)
    if found["type"] != "stream":
        text = f"Cannot get stream status of a {found['type']} queue"
        raise ToolFailedError(UNAVAILABLE, text)
    _as_pretty_table(call)
    if "tracking" in call.options:
        groups = call.ask("offsets.list", vhost=call.vhost, queue=name, shards="")
        rows = [(Atom("offset"), each["group"], each["committed"]) for each in groups]
        return Rows(("type", "reference", "value"), rows)
    last = max(found["log_end_offset"] - 1, found["log_start_offset"])
    values = {
        "role": Atom("writer"),
        "node": Atom(call.node),
        "offset": last,
        "committed_offset": last,
        "first_offset": found["log_start_offset"],
        "readers": found["consumers"],
        "segments": found["segments"],
    }
    return Rows(tuple(values), [tuple(values.values())])


def reclaim_quorum_memory(call: Call) -> None:
    """Do nothing: the memory of a quorum queue is bounded by itself."""
    name = call.arguments[0]
    call.banner(f"Will flush Raft WAL of quorum queue {name} ...")
    if _existing(call, name)["type"] != "quorum":
        raise ToolFailedError(UNAVAILABLE, "This operation is not applicable to classic queues")


def peek(call: Call) -> None:
    """Refuse: `amqp-server browse` shows messages of any queue."""
    name, position = call.arguments
    about = f"quorum queue {name} at position {position} on node {call.node}"
    call.banner(f"Peeking at {about} ...")
    if _existing(call, name)["type"] != "quorum":
        raise ToolFailedError(UNAVAILABLE, "Cannot peek into a classic queue")
    text = f"peek does nothing here: `amqp-server browse {name}` shows messages of any queue"
    raise ToolFailedError(UNAVAILABLE, text)


def _existing(call: Call, name: str) -> dict[str, Any]:
    try:
        return _queue(call, name)
    except ToolFailedError as missing:
        text = f"Target queue was not found in virtual host '{call.vhost}'"
        raise ToolFailedError(UNAVAILABLE, text) from missing


def _queue(call: Call, name: str) -> dict[str, Any]:
    try:
        found = call.ask("queues.stats", vhost=call.vhost, queue=name, after="", limit=1)
    except RefusedError as refused:
        if refused.kind == "not_found":
            raise ToolFailedError(UNAVAILABLE, "not_found") from refused
        raise
    if not found["queues"]:
        raise ToolFailedError(UNAVAILABLE, "not_found")
    row: dict[str, Any] = found["queues"][0]
    return row


def _as_pretty_table(call: Call) -> None:
    if "formatter" not in call.options:
        call.formatter = "pretty_table"
