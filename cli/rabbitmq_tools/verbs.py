"""The table of verbs: how each is written, which tools have it, and which function does it.

docs/rabbitmq-tools.md has the same table for people.
"""

from __future__ import annotations

from cli.rabbitmq_tools.failures import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.rabbitmq_tools.call import Call
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
_ALWAYS = ("health", "node", "plugins", "upgrading")
"""Families whose verbs RabbitMQ has also while its application is stopped."""


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
        self._family = family
        self._function = function
        self._least = least
        self._most = most

    def check(self, arguments: list[str]) -> None:
        """Check the number of arguments.

        Raises:
            UsageError: They are too many or too few.
        """
        if len(arguments) < self._least:
            raise UsageError("not enough arguments.")
        if len(arguments) > self._most:
            raise UsageError("too many arguments.")

    def load(self) -> Action:
        """Import the family; return the function."""
        # `importlib.import_module` costs an import of its own.
        module = __import__(f"cli.rabbitmq_tools.{self._family}", fromlist=[self._function])
        action: Action = getattr(module, self._function)
        return action


def _table(tools: tuple[str, ...], family: str, rows: str) -> dict[str, Verb]:
    """Return the verbs of a family.

    Args:
        tools: Names of the tools that have them.
        family: Name of the module; its functions are named as the verbs.
        rows: A line for each: least and most arguments, and the usage.
    """
    verbs = {}
    for row in rows.strip().splitlines():
        least, most, usage = row.split(maxsplit=2)
        name = usage.split()[0]
        count = MANY if most == "*" else int(most)
        verbs[name] = Verb(usage, family, name, int(least), count, tools)
    return verbs


VERBS: dict[str, Verb] = {
    **_table(
        (CTL,),
        "users",
        """
        1 2 add_user <username> <password>
        1 2 authenticate_user <username> <password>
        1 2 change_password <username> <password>
        1 1 clear_password <username>
        1 1 delete_user <username>
        0 0 list_users [--no-table-headers] [--timeout <timeout>]
        1 * set_user_tags <username> <tag> [...]
        """,
    ),
    **_table(
        (CTL,),
        "permissions",
        """
        1 1 clear_permissions [--vhost <vhost>] <username>
        1 2 clear_topic_permissions [--vhost <vhost>] <username> [<exchange>]
        0 0 list_permissions [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        0 0 list_topic_permissions [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        1 1 list_user_permissions [--no-table-headers] <username> [--timeout <timeout>]
        1 1 list_user_topic_permissions [--no-table-headers] <username> [--timeout <timeout>]
        4 4 set_permissions [--vhost <vhost>] <username> <conf> <write> <read>
        4 4 set_topic_permissions [--vhost <vhost>] <username> <exchange> <write> <read>
        """,
    ),
    **_table(
        (CTL,),
        "vhosts",
        """
        1 1 add_vhost <vhost> [--description <description> --tags "<tag1>,<tag2>,<...>"]
        1 1 delete_vhost <vhost>
        0 * list_vhosts [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 0 trace_off [--vhost <vhost>]
        0 0 trace_on [--vhost <vhost>]
        """,
    ),
    **_table(
        (CTL,),
        "policies",
        """
        1 1 clear_operator_policy [--vhost <vhost>] <name>
        1 1 clear_policy [--vhost <vhost>] <name>
        0 0 list_operator_policies [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        0 0 list_policies [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        3 3 set_operator_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
        3 3 set_policy [--vhost <vhost>] [--priority <priority>] [--apply-to <apply-to>] <name> <pattern> <definition>
        """,  # noqa: E501 - one line each
    ),
    **_table(
        (CTL,),
        "parameters",
        """
        1 1 clear_global_parameter <key>
        2 2 clear_parameter [--vhost <vhost>] <component_name> <name>
        0 0 list_global_parameters [--no-table-headers] [--timeout <timeout>]
        0 0 list_parameters [--vhost <vhost>] [--no-table-headers] [--timeout <timeout>]
        1 1 set_cluster_name <name>
        2 2 set_global_parameter <name> <value>
        3 3 set_parameter [--vhost <vhost>] <component_name> <name> <value>
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
        2 2 clear_user_limits username <limit_type> | all
        0 0 clear_vhost_limits [--vhost <vhost>]
        0 0 list_user_limits [--user <username>] [--global]
        0 0 list_vhost_limits [--vhost <vhost>] [--global] [--no-table-headers]
        2 2 set_user_limits <username> <definition>
        1 1 set_vhost_limits [--vhost <vhost>] <definition>
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "objects",
        """
        0 * list_bindings [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_exchanges [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_queues [--vhost <vhost>] [--online] [--offline] [--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]
        """,  # noqa: E501
    ),
    **_table(
        (CTL,),
        "objects",
        """
        1 1 delete_queue [--vhost <vhost>] <queue_name> [--if-empty|-e] [--if-unused|-u] [--timeout <timeout>]
        1 1 purge_queue [--vhost <vhost>] <queue> [--timeout <timeout>]
        """,  # noqa: E501
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "connections",
        """
        0 * list_channels [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_connections [--no-table-headers] [<column> ...] [--timeout <timeout>]
        0 * list_consumers [--vhost <vhost>] [--no-table-headers] [<column> ...] [--timeout <timeout>]
        """,  # noqa: E501
    ),
    **_table(
        (CTL,),
        "connections",
        """
        1 1 close_all_connections [--vhost <vhost> --limit <limit>] [-n <node> --global] [--per-connection-delay <delay>] <explanation>
        2 2 close_all_user_connections <username> <explanation>
        2 2 close_connection <connection pid> <explanation>
        """,  # noqa: E501
    ),
    **_table(
        (CTL,),
        "definitions",
        """
        0 1 export_definitions <file_path | "-"> [--format <json | erlang>] [--timeout <timeout>]
        0 1 import_definitions <file_path | "-"> [--format <json | erlang>] [--skip-if-unchanged] [--timeout <timeout>]
        """,  # noqa: E501
    ),
    **_table(
        TOOLS,
        "node",
        """
        0 0 version
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "node",
        """
        0 0 await_startup [--timeout <timeout>]
        0 0 cluster_status
        0 0 environment
        0 * list_feature_flags [<column> ...] [--timeout <timeout>]
        0 0 status [--unit <unit>] [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL,),
        "node",
        """
        1 1 enable_feature_flag <all | feature_flag>
        1 1 eval <expr>
        0 1 stop [<pidfile>]
        0 0 shutdown [--timeout <timeout>]
        0 0 start_app
        0 0 stop_app
        0 1 wait [<pidfile>] [--pid|-P <pid>] [--timeout <timeout>]
        """,
    ),
    **_table(
        (CTL, DIAGNOSTICS),
        "health",
        """
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
        0 0 check_port_connectivity [--address <address>] [--timeout <timeout>]
        1 1 check_port_listener <port>
        1 1 check_protocol_listener <protocol>
        0 0 check_running [--timeout <timeout>]
        0 0 check_virtual_hosts [--timeout <timeout>]
        0 0 is_booting [--timeout <timeout>]
        0 0 is_running [--timeout <timeout>]
        0 0 listeners [--timeout <timeout>]
        0 0 server_version [--timeout <timeout>]
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
        0 * set <plugin1> [ <plugin2>] | --all [--offline] [--online]
        """,
    ),
    **_table(
        (QUEUES, UPGRADE),
        "upgrading",
        """
        0 0 await_online_quorum_plus_one
        0 0 await_online_synchronized_mirror
        0 0 check_if_node_is_mirror_sync_critical
        0 0 check_if_node_is_quorum_critical
        0 0 drain
        0 0 post_upgrade
        1 1 rebalance < all | classic | quorum > [--vhost-pattern <pattern>] [--queue-pattern <pattern>]
        0 0 revive
        """,  # noqa: E501
    ),
}
