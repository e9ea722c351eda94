"""Verbs of RabbitMQ that mean nothing here: each is refused with the reason, and what to do."""

from __future__ import annotations

from cli.rabbitmq_tools.failures import UNAVAILABLE, ToolFailedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

_CLUSTER = "there is no cluster, only this server"
_ERLANG = "this server does not run on Erlang"
_ENCRYPTED = (
    "encrypted values are RabbitMQ's: rabbitmq.conf takes a secret from the environment, $(NAME)"
)
_AUDITED = "the audit log keeps the source of each login: see `amqp-server audit`"
_MEMBERS = "a queue has one copy, on this server"

REASONS = {
    "add_member": _MEMBERS,
    "cancel_sync_queue": _MEMBERS,
    "change_cluster_node_type": _CLUSTER,
    "decode": _ENCRYPTED,
    "delete_member": _MEMBERS,
    "disable_auth_attempt_source_tracking": _AUDITED,
    "enable_auth_attempt_source_tracking": _AUDITED,
    "encode": _ENCRYPTED,
    "erlang_cookie_hash": f"{_ERLANG}: who may use the control socket may use the tools",
    "erlang_cookie_sources": f"{_ERLANG}: who may use the control socket may use the tools",
    "erlang_version": f"{_ERLANG}, but on Python: see `amqp-server --version`",
    "eval_file": _ERLANG,
    "exec": _ERLANG,
    "force_boot": f"{_CLUSTER}, which waits for no other when it starts",
    "force_reset": "to begin with nothing, stop the server and start it with a new data directory",
    "forget_cluster_node": _CLUSTER,
    "grow": _MEMBERS,
    "hipe_compile": _ERLANG,
    "join_cluster": _CLUSTER,
    "list_ciphers": _ENCRYPTED,
    "list_hashes": _ENCRYPTED,
    "list_network_interfaces": "ask the operating system: `ip address`",
    "maybe_stuck": f"{_ERLANG}: `amqp-server status` shows what has held up its event loop",
    "observer": f"{_ERLANG}: the page and the metrics show the server at work",
    "remote_shell": _ERLANG,
    "rename_cluster_node": _CLUSTER,
    "reset": "to begin with nothing, stop the server and start it with a new data directory",
    "reset_node_auth_attempt_metrics": "counters of this server only grow: take the difference",
    "runtime_thread_stats": f"{_ERLANG}: `amqp-server status` shows what held up its event loop",
    "schema_info": f"{_ERLANG}, and has no tables of Mnesia",
    "shrink": _MEMBERS,
    "sync_queue": _MEMBERS,
    "update_cluster_nodes": _CLUSTER,
}
"""Why each of them is refused."""


def refuse(call: Call) -> None:
    """Refuse a verb that means nothing here.

    Raises:
        ToolFailedError: Always.
    """
    raise ToolFailedError(UNAVAILABLE, f"{call.verb} does nothing here: {REASONS[call.verb]}")
