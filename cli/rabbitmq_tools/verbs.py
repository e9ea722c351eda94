"""The table of verbs: how each is written, which tools have it, and which function does it.

docs/rabbitmq-tools.md has the same table for people.
"""

from __future__ import annotations

import re

from cli.rabbitmq_tools.failures import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.rabbitmq_tools.call import Call
    from cli.rabbitmq_tools.command_line import CommandLine
    from cli.rabbitmq_tools.output import Message, Rows

    Action = Callable[[Call], Rows | Message | None]

CTL, DIAGNOSTICS, PLUGINS, QUEUES, UPGRADE = TOOLS = (
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-plugins",
    "rabbitmq-queues",
    "rabbitmq-upgrade",
)
MANY = 1000
_ALWAYS = (
    "certificates",
    "following",
    "health",
    "helping",
    "node",
    "plugins",
    "refusals",
    "settings",
    "upgrading",
)
"""Families whose verbs RabbitMQ has also while its application is stopped."""
_UNWRITTEN = {
    "add_user": ("pre-hashed-password",),
    "change_password": ("pre-hashed-password",),
    "check_port_connectivity": ("address",),
    "delete_queue": ("enabled",),
    "list_connections": ("local", "global"),
    "list_channels": ("local", "global"),
    "erlang_version": ("details",),
    "help": ("list-commands",),
    "disable": ("all",),
    "enable": ("all",),
    "set": ("all",),
}
"""Options of verbs that RabbitMQ's usage does not name, and names that short ones stand for."""


class Verb:
    """A verb of the tools.

    Args:
        usage: How it is written.
        family: Name of the module with its function.
        function: Name of the function.
        least: How many arguments it needs.
        most: How many it takes.
        tools: Names of the tools that have it.

    Attributes:
        family: Name of the module with its function.
        arguments_min: How many arguments it needs.
        needs_service: Whether it is refused while clients are suspended, as in RabbitMQ while its
            application is stopped.
    """

    def __init__(
        self,
        usage: str,
        family: str,
        function: str,
        least: int,
        most: int,
        tools: tuple[str, ...],
    ) -> None:
        self.usage = usage
        self.tools = tools
        self.needs_service = family not in _ALWAYS
        self.family = family
        self._function = function
        self.arguments_min = least
        self._most = most

    def check(self, line: CommandLine) -> None:
        """Check options, and the number of arguments.

        Raises:
            UsageError: The verb has no such option, or has more or fewer arguments.
        """
        name, _, usage = self.usage.partition(" ")
        arguments = line.arguments
        written = (word.partition("|")[0] for word in usage.split("--")[1:])
        known = {"".join(re.findall(r"^[a-z-]+", word)) for word in written}
        line.refuse_others(known | set(_UNWRITTEN.get(name, ())))
        if len(arguments) < self.arguments_min:
            raise UsageError("not enough arguments.")
        if len(arguments) > self._most:
            raise UsageError("too many arguments.")

    def load(self) -> Action:
        """Import the family; return the function."""
        # `importlib.import_module` costs an import of its own.
        module = __import__(f"cli.rabbitmq_tools.{self.family}", fromlist=[self._function])
        action: Action = getattr(module, self._function)
        return action


def _table(tools: tuple[str, ...], family: str, rows: str, function: str = "") -> dict[str, Verb]:
    """Return the verbs of a family.

    Args:
        tools: Names of the tools that have them.
        family: Name of the module.
        rows: A line for each: least and most arguments, and the usage.
        function: Function of all of them; otherwise those that are named as the verbs.
    """
    verbs = {}
    for row in rows.strip().splitlines():
        least, most, usage = row.split(maxsplit=2)
        name = usage.split()[0]
        count = MANY if most == "*" else int(most)
        verbs[name] = Verb(usage, family, function or name, int(least), count, tools)
    return verbs


VERBS: dict[str, Verb] = {
    **_table(
        (CTL, DIAGNOSTICS, PLUGINS, QUEUES),
        "helping",
        """
        1 1 autocomplete [prefix] [--timeout <timeout>]
        """,
    ),
    **_table(
        TOOLS,
        "helping",
        """
        0 1 help (<command> | [--list-commands])
        """,
    ),
    **_table(
        (CTL,),
        "node",
        """
        1 1 await_online_nodes <count> [--timeout <timeout>]
        1 1 enable_feature_flag <all | feature_flag>
        1 1 eval <expression>
        0 0 force_gc [--timeout <timeout>]
        0 0 resume_listeners
        0 0 rotate_logs
        0 0 shutdown [--wait] [--timeout <timeout>]
        0 0 start_app
        0 1 stop [--idempotent] [<pidfile>]
        0 0 stop_app
        0 0 suspend_listeners
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "node",
        """
        0 0 await_startup
        0 0 cluster_status [--timeout <timeout>]
        0 * list_feature_flags [<column> ...] [--timeout <timeout>]
        0 0 status [--unit <unit>] [--timeout <timeout>]
        0 1 wait [<pidfile>] [--pid|-P <pid>] [--timeout <timeout>]
        """,
    ),
    **_table(
        TOOLS,
        "node",
        """
        0 0 version
        """,
    ),
    **_table(
        (CTL,),
        "settings",
        """
        1 2 set_disk_free_limit <disk_limit> | mem_relative <fraction>
        1 1 set_log_level <log_level>
        1 2 set_vm_memory_high_watermark <fraction> | absolute <value>
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "settings",
        """
        0 0 environment
        """,
    ),
    **_table(
        (DIAGNOSTICS,),
        "settings",
        """
        0 0 command_line_arguments
        0 0 os_env [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "users",
        """
        1 2 add_user <username> <password>
        1 2 authenticate_user <username> <password>
        1 2 change_password <username> <password>
        1 1 clear_password <username>
        1 1 delete_user <username>
        1 * set_user_tags <username> <tag> [...]
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "users",
        """
        0 0 list_node_auth_attempt_stats [--by-source]
        0 0 list_users [--no-table-headers] [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "permissions",
        """
        1 1 clear_permissions [--vhost <vhost>] <username>
        1 2 clear_topic_permissions [--vhost <vhost>] <username> [<exchange>]
        4 4 set_permissions [--vhost <vhost>] <username> <conf> <write> <read>
        4 4 set_topic_permissions [--vhost <vhost>] <username> <exchange> <write> <read>
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "permissions",
        """
        0 0 list_permissions [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        0 0 list_topic_permissions [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        1 1 list_user_permissions [--no-table-headers] <username> [--timeout <timeout>]
        1 1 list_user_topic_permissions [--no-table-headers] <username> [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "vhosts",
        """
        1 1 add_vhost <vhost> [--description <description> --tags "<tag1>,<tag2>,<...>" --default-queue-type <quorum|classic|stream>]
        1 1 delete_vhost <vhost>
        0 0 restart_vhost [--vhost <vhost>] [--timeout <timeout>]
        1 * set_vhost_tags <vhost> <tag> [...]
        0 0 trace_off [--vhost <vhost>]
        0 0 trace_on [--vhost <vhost>]
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "vhosts",
        """
        0 * list_vhosts [--no-table-headers] [<column> ...] [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "policies",
        """
        1 1 clear_operator_policy [--vhost <vhost>] <name>
        1 1 clear_policy [--vhost <vhost>] <name>
        3 3 set_operator_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
        3 3 set_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "policies",
        """
        0 0 list_operator_policies [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        0 0 list_policies [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "parameters",
        """
        1 1 clear_global_parameter <name>
        2 2 clear_parameter [--vhost <vhost>] <component_name> <name>
        1 1 set_cluster_name <name>
        2 2 set_global_parameter <name> <value>
        3 3 set_parameter [--vhost <vhost>] <component_name> <name> <value>
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "parameters",
        """
        0 0 list_global_parameters [--no-table-headers] [--timeout <timeout>]
        0 0 list_parameters [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "shovels",
        """
        1 1 delete_shovel [--vhost <vhost>] <name>
        1 1 restart_shovel [--vhost <vhost>] <name>
        0 0 shovel_status
        """,
    ),
    **_table(
        (CTL,),
        "limits",
        """
        2 2 clear_user_limits <username> <limit_type> | all
        0 0 clear_vhost_limits [--vhost <vhost>]
        2 2 set_user_limits <username> <definition>
        1 1 set_vhost_limits [--vhost <vhost>] <definition>
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "limits",
        """
        0 0 list_user_limits [--user <username>] [--global]
        0 0 list_vhost_limits [--vhost <vhost>] [--global] [--no-table-headers]
        """,
    ),
    **_table(
        (CTL,),
        "objects",
        """
        1 1 delete_queue <queue_name> [--if-empty|-e] [--if-unused|-u] [--timeout <timeout>]
        1 1 purge_queue <queue> [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "objects",
        """
        0 * list_bindings [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_exchanges [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_queues [--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]
        0 * list_unresponsive_queues [--local] [--queue-timeout <milliseconds>] [<column> ...] [--no-table-headers] [--timeout <timeout>]
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (DIAGNOSTICS, QUEUES),
        "replicas",
        """
        1 1 quorum_status [--vhost <vhost>] <queue>
        1 1 reclaim_quorum_memory  [--vhost <vhost>] <quorum queue>
        1 1 stream_status [--vhost <vhost>] [--tracking] <stream>
        """,
    ),
    **_table(
        (QUEUES,),
        "replicas",
        """
        2 2 peek [--vhost <vhost>] <queue> <position> [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "connections",
        """
        1 1 close_all_connections [--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>
        2 2 close_all_user_connections <username> <explanation>
        2 2 close_connection <connection pid> <explanation>
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "connections",
        """
        0 * list_channels [--no-table-headers] [<column> ...]
        0 * list_connections [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_consumers [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL,),
        "definitions",
        """
        0 1 export_definitions <file_path | "-"> [--format <json | erlang>] [--timeout <timeout>]
        0 1 import_definitions <file_path | "-"> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "health",
        """
        0 0 node_health_check [--timeout <timeout>]
        0 0 ping [--timeout <timeout>]
        """,
    ),
    **_table(
        (DIAGNOSTICS,),
        "health",
        """
        0 0 alarms [--timeout <timeout>]
        0 0 check_alarms [--timeout <timeout>]
        0 0 check_local_alarms [--timeout <timeout>]
        0 0 check_port_connectivity [--timeout <timeout>]
        1 1 check_port_listener <port> [--timeout <timeout>]
        1 1 check_protocol_listener <protocol> [--timeout <timeout>]
        0 0 check_running [--timeout <timeout>]
        0 0 check_virtual_hosts [--timeout <timeout>]
        0 0 discover_peers [--timeout <timeout>]
        0 0 is_booting [--timeout <timeout>]
        0 0 is_running [--timeout <timeout>]
        0 0 listeners [--timeout <timeout>]
        0 0 memory_breakdown [--unit <unit>] [--timeout <timeout>]
        0 0 server_version [--timeout <timeout>]
        """,
    ),
    **_table(
        (DIAGNOSTICS,),
        "certificates",
        """
        0 0 certificates
        0 0 check_certificate_expiration [--within <period>] [--unit <unit>]
        0 0 cipher_suites [--format <openssl | erlang | map>] [--all] [--timeout <timeout>]
        1 1 resolve_hostname <hostname> [--address-family <ipv4 | ipv6>]
        0 0 resolver_info
        0 0 tls_versions [--timeout <timeout>]
        """,
    ),
    **_table(
        (DIAGNOSTICS,),
        "following",
        """
        0 0 consume_event_stream [--duration|-d <seconds>] [--pattern <pattern>] [--timeout <timeout>]
        0 0 log_location [--all|-a] [--timeout <timeout>]
        0 0 log_tail [--number|-N <number>] [--timeout <timeout>]
        0 0 log_tail_stream [--duration|-d <seconds>] [--timeout <timeout>]
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "report",
        """
        0 0 report
        """,
    ),
    **_table(
        (PLUGINS,),
        "plugins",
        """
        0 0 directories [--offline] [--online]
        0 * disable <plugin1> [ <plugin2>] | --all [--offline] [--online]
        0 * enable <plugin1> [ <plugin2>] | --all [--offline] [--online]
        1 * is_enabled <plugin1> [ <plugin2>] [--offline] [--online]
        0 1 list [pattern] [--verbose] [--minimal] [--enabled] [--implicitly-enabled]
        0 * set <plugin1> [ <plugin2>] [--offline] [--online]
        """,
    ),
    **_table(
        (DIAGNOSTICS, QUEUES),
        "upgrading",
        """
        0 0 check_if_node_is_mirror_sync_critical [--timeout <timeout>]
        0 0 check_if_node_is_quorum_critical [--timeout <timeout>]
        """,
    ),
    **_table(
        (QUEUES,),
        "upgrading",
        """
        1 1 rebalance < all | classic | quorum > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (UPGRADE,),
        "upgrading",
        """
        0 0 await_online_quorum_plus_one
        0 0 await_online_synchronized_mirror
        0 0 drain
        0 0 post_upgrade
        0 0 revive
        """,
    ),
    **_table(
        (CTL,),
        "refusals",
        """
        1 1 cancel_sync_queue [--vhost <vhost>] <queue>
        1 1 change_cluster_node_type <disc | ram>
        0 2 decode value passphrase [--cipher <cipher>] [--hash <hash>] [--iterations <iterations>]
        0 2 encode value passphrase [--cipher <cipher>] [--hash <hash>] [--iterations <iterations>]
        1 1 eval_file <file path>
        1 1 exec <expression> [--offline]
        0 0 force_boot
        0 0 force_reset
        1 1 forget_cluster_node [--offline] <existing_cluster_member_node>
        1 1 hipe_compile <directory>
        1 1 join_cluster [--disc|--ram] <existing_cluster_member>
        2 * rename_cluster_node <oldnode1> <newnode1> [oldnode2] [newnode2] ...
        0 0 reset
        1 1 sync_queue [--vhost <vhost>] <queue>
        1 1 update_cluster_nodes <seed_node>
        """,
        "refuse",
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "refusals",
        """
        0 0 list_ciphers
        0 0 list_hashes
        0 * schema_info [--no-table-headers] [<column> ...] [--timeout <timeout>]
        """,
        "refuse",
    ),
    **_table(
        (DIAGNOSTICS,),
        "refusals",
        """
        0 0 disable_auth_attempt_source_tracking
        0 0 enable_auth_attempt_source_tracking
        0 0 erlang_cookie_hash [--timeout <timeout>]
        0 0 erlang_cookie_sources [--timeout <timeout>]
        0 0 erlang_version [--timeout <timeout>]
        0 0 list_network_interfaces [--timeout <timeout>]
        0 0 maybe_stuck [--timeout <timeout>]
        0 0 observer [--interval <seconds>]
        0 0 remote_shell
        0 0 reset_node_auth_attempt_metrics
        0 0 runtime_thread_stats [--sample-interval <interval>]
        """,
        "refuse",
    ),
    **_table(
        (QUEUES,),
        "refusals",
        """
        2 2 add_member [--vhost <vhost>] <queue> <node> [--timeout <timeout>]
        2 2 delete_member [--vhost <vhost>] <queue> <node>
        2 2 grow <node> <all | even> [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
        1 1 shrink <node> [--errors-only]
        """,
        "refuse",
    ),
}
