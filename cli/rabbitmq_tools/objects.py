"""Verbs of queues, exchanges and bindings."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import UNAVAILABLE, USAGE, ToolFailedError
from cli.rabbitmq_tools.output import Message, Rows
from cli.rabbitmq_tools.rows import rows_of
from cli.rabbitmq_tools.values import Atom, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cli.rabbitmq_tools.call import Call

    Row = dict[str, Any]
    Columns = dict[str, Callable[[Row], object]]


def _field(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name)


def _text(name: str) -> Callable[[Row], object]:
    return lambda row: row.get(name) or ""


def _always(value: object) -> Callable[[Row], object]:
    return lambda _row: value


def _bytes_of(name: str) -> Callable[[Row], object]:
    return lambda row: int(row["message_bytes_mean"] * row[name])


def _messages(row: Row) -> int:
    return int(row["messages_ready"] + row["messages_unacknowledged"])


def _message_bytes(row: Row) -> int:
    return int(row["message_bytes_mean"] * _messages(row))


def _persistent(row: Row) -> bool:
    return bool(row["durability"] != "none")


QUEUE_COLUMNS: Columns = {
    "name": _field("name"),
    "durable": _field("durable"),
    "auto_delete": _field("auto_delete"),
    "arguments": lambda row: Table(row["arguments"]),
    "policy": _text("policy"),
    "operator_policy": _text("operator_policy"),
    "effective_policy_definition": lambda row: Table(row.get("effective_policy_definition") or {}),
    "pid": _field("pid"),
    "owner_pid": _text("owner"),
    "exclusive": _field("exclusive"),
    "exclusive_consumer_pid": _always(""),
    "exclusive_consumer_tag": _text("exclusive_consumer_tag"),
    "single_active_consumer_pid": _always(""),
    "single_active_consumer_tag": _text("single_active_consumer_tag"),
    "messages_ready": _field("messages_ready"),
    "messages_unacknowledged": _field("messages_unacknowledged"),
    "messages": _messages,
    "messages_ready_ram": lambda row: min(row["messages_ram"], row["messages_ready"]),
    "messages_unacknowledged_ram": lambda row: max(row["messages_ram"] - row["messages_ready"], 0),
    "messages_ram": lambda row: min(row["messages_ram"], _messages(row)),
    "messages_persistent": lambda row: _messages(row) if _persistent(row) else 0,
    "message_bytes": _message_bytes,
    "message_bytes_ready": _bytes_of("messages_ready"),
    "message_bytes_unacknowledged": _bytes_of("messages_unacknowledged"),
    "message_bytes_ram": lambda row: min(row["message_bytes_ram"], _message_bytes(row)),
    "message_bytes_persistent": lambda row: _message_bytes(row) if _persistent(row) else 0,
    "head_message_timestamp": lambda row: row["head_message_timestamp"] or "",
    "disk_reads": _field("disk_reads"),
    "disk_writes": _field("disk_writes"),
    "consumers": _field("consumers"),
    "consumer_utilisation": _always(0),
    "consumer_capacity": _always(0),
    "memory": _field("message_bytes_ram"),
    "state": lambda row: Atom(row["state"]),
    "type": lambda row: Atom(row["type"]),
    "leader": _always(""),
    "members": _always(""),
    "online": _always(""),
    "slave_pids": _always(""),
    "synchronised_slave_pids": _always(""),
    "mirror_pids": _always(""),
    "synchronised_mirror_pids": _always(""),
}
_EXCHANGE_COLUMNS: Columns = {
    "name": _field("name"),
    "type": lambda row: Atom(row["type"]),
    "durable": _field("durable"),
    "auto_delete": _field("auto_delete"),
    "internal": _field("internal"),
    "arguments": lambda row: Table(row["arguments"]),
    "policy": _text("policy"),
}
_BINDING_COLUMNS: Columns = {
    "source_name": _field("source"),
    "source_kind": _always(Atom("exchange")),
    "destination_name": _field("destination"),
    "destination_kind": lambda row: Atom(row["destination_type"]),
    "routing_key": _field("routing_key"),
    "arguments": lambda row: Table(row["arguments"]),
    "vhost": _field("vhost"),
}


def list_queues(call: Call) -> Rows:
    """List the queues of a virtual host."""
    columns = call.columns(tuple(QUEUE_COLUMNS), ("name", "messages"))
    call.banner(f"Timeout: {call.seconds_text} seconds ...")
    call.banner(f"Listing queues for vhost {call.vhost} ...")
    is_offline = "offline" in call.options
    rows = [] if is_offline else _of_vhost(call, "queues")
    return shown(QUEUE_COLUMNS, columns, rows)


def list_unresponsive_queues(call: Call) -> Rows:
    """List nothing: one event loop answers for all queues, and it has answered."""
    columns = call.columns(tuple(QUEUE_COLUMNS), ("name",))
    call.banner(f"Listing unresponsive queues for vhost {call.vhost} ...")
    call.ask("probe")
    return shown(QUEUE_COLUMNS, columns, [])


def list_exchanges(call: Call) -> Rows:
    """List the exchanges of a virtual host."""
    columns = call.columns(tuple(_EXCHANGE_COLUMNS), ("name", "type"))
    call.banner(f"Listing exchanges for vhost {call.vhost} ...")
    return shown(_EXCHANGE_COLUMNS, columns, _of_vhost(call, "exchanges"))


def list_bindings(call: Call) -> Rows:
    """List the bindings of a virtual host."""
    columns = call.columns(tuple(_BINDING_COLUMNS), list(_BINDING_COLUMNS)[:-1])
    call.banner(f"Listing bindings for vhost {call.vhost}...")
    found: list[Row] = []
    try:
        for report in call.server.parts("bindings.list", {"vhost": call.vhost}):
            found += report["bindings"]
    except RefusedError as refused:
        if refused.kind != "not_found":
            raise
    for row in found:
        # RabbitMQ sorts the arguments of a binding.
        row["arguments"] = dict(sorted(row["arguments"].items()))
    return shown(_BINDING_COLUMNS, columns, found)


def purge_queue(call: Call) -> None:
    """Drop the ready messages of a queue."""
    name = call.arguments[0]
    call.banner(f"Purging queue '{name}' in vhost '{call.vhost}' ...")
    try:
        call.ask("queues.purge", vhost=call.vhost, name=name)
    except RefusedError as refused:
        if _is_missing(refused):
            raise ToolFailedError(UNAVAILABLE, "not_found") from refused
        raise


def delete_queue(call: Call) -> Message | None:
    """Delete a queue."""
    name = call.arguments[0]
    if_unused = "if-unused" in call.options
    # Among plugins `-e` means something else.
    if_empty = "if-empty" in call.options or "enabled" in call.options
    conditions = ["queue is empty"] * if_empty + ["queue is unused"] * if_unused
    condition = "if " + "and if ".join(f"{each} " for each in conditions) if conditions else ""
    call.banner(f"Deleting queue '{name}' on vhost '{call.vhost}' {condition}...")
    try:
        done = call.ask(
            "queues.delete", vhost=call.vhost, name=name, if_empty=if_empty, if_unused=if_unused
        )
    except RefusedError as refused:
        if _is_missing(refused):
            raise _no_queue() from refused
        if refused.details.get("code") == _PRECONDITION_FAILED:
            why = "not empty" if "empty" in refused.reason else "in use"
            raise ToolFailedError(USAGE, f"Queue is {why}") from refused
        raise
    if not done["existed"]:
        raise _no_queue()
    if not call.has_notes:
        return None
    return Message(f"Queue was successfully deleted with {done['messages']} ready messages")


_PRECONDITION_FAILED = 406
_NOT_FOUND = 404


def _no_queue() -> ToolFailedError:
    return ToolFailedError(USAGE, "Queue not found")


def _is_missing(refused: RefusedError) -> bool:
    return refused.kind == "not_found" or refused.details.get("code") == _NOT_FOUND


def _of_vhost(call: Call, kind: str) -> list[Row]:
    found = [row for row in rows_of(call, kind) if row["vhost"] == call.vhost]
    return sorted(found, key=lambda row: str(row["name"]))


def shown(known: Columns, columns: list[str], rows: list[Row]) -> Rows:
    """Return the columns of a list of objects that are asked for."""
    return Rows(columns, [[known[name](row) for name in columns] for row in rows], is_stream=True)
