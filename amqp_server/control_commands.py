"""All commands of the control socket, and the parts of the server that each uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.admin.change_feed.changed_objects import ChangedObjects
from amqp_server.base.compatible_version import compatible_version
from amqp_server.control.audit_pages import audit_commands
from amqp_server.control.bindings import binding_commands
from amqp_server.control.browse import browse_commands
from amqp_server.control.change_feed import changes_commands
from amqp_server.control.checkpoint import checkpoint_commands
from amqp_server.control.connections import connection_commands
from amqp_server.control.definitions import definitions_commands
from amqp_server.control.delayed import delayed_commands
from amqp_server.control.exchange_changes import exchange_commands
from amqp_server.control.exports import exports_commands
from amqp_server.control.following import following_commands
from amqp_server.control.forced_alarms import alarm_commands
from amqp_server.control.imports import import_commands
from amqp_server.control.limits import limit_commands
from amqp_server.control.logins import login_commands
from amqp_server.control.moving import moving_commands
from amqp_server.control.node_state import NodeState
from amqp_server.control.offsets import offsets_commands
from amqp_server.control.parameters import parameter_commands
from amqp_server.control.pausing import pausing_commands
from amqp_server.control.permissions import permission_commands
from amqp_server.control.policies import policy_commands
from amqp_server.control.probe import probe_commands
from amqp_server.control.publish_and_get import message_commands
from amqp_server.control.queue_changes import queue_commands
from amqp_server.control.queues import statistics_commands
from amqp_server.control.replay import replay_commands
from amqp_server.control.returning import returning_commands
from amqp_server.control.settings import setting_commands
from amqp_server.control.shards import shards_commands
from amqp_server.control.shovels import shovel_commands
from amqp_server.control.status import StatusSources, status_commands
from amqp_server.control.transfers import transfer_commands
from amqp_server.control.unacked import unacked_commands
from amqp_server.control.users import user_commands
from amqp_server.control.vhosts import vhost_commands

if TYPE_CHECKING:
    from amqp_server.admin.log_tail import LogTail
    from amqp_server.children.management_process import ManagementProcess
    from amqp_server.children.shovel_process import ShovelProcess
    from amqp_server.control.registry import Command
    from amqp_server.control.transfers import Transfers
    from amqp_server.server import Server


def control_commands(
    server: Server,
    address: tuple[str, int],
    management: ManagementProcess,
    shovels: ShovelProcess,
    started_seconds: float,
    transfers: Transfers,
    log_tail: LogTail | None = None,
) -> dict[str, Command]:
    """Return the commands by name.

    Args:
        server: Server that the commands ask.
        address: Host and port on which it listens.
        management: Process of the management server.
        shovels: Process of the shovels.
        started_seconds: Time of its start on the clock `time.monotonic`.
        transfers: Its transfers of messages.
        log_tail: The last lines of its log; None if it keeps none.
    """
    broker, checkpointer = server.broker, server.checkpointer
    connections, alarms = server.connections, server.alarms
    sources = StatusSources(
        address,
        started_seconds,
        broker,
        connections,
        alarms,
        server.journal,
        server.watch,
        server.slow_readers,
        management,
        server.context.handshake_factory.authentication,
    )
    node = NodeState(sources, checkpointer, server.filesystem)
    families = (
        alarm_commands(alarms),
        audit_commands(server.config.storage_path),
        browse_commands(broker, server.access),
        changes_commands(ChangedObjects(broker, connections), broker.turn, node),
        checkpoint_commands(checkpointer),
        definitions_commands(broker, server.definitions, server.config.storage_path, server.access),
        exports_commands(broker, server.access, server.config.storage_path),
        following_commands(broker.events, log_tail),
        import_commands(broker, server.imports),
        limit_commands(broker, server.limit_settings, server.context.connection_limits),
        delayed_commands(broker, server.access),
        moving_commands(broker, server.access, alarms, transfers),
        offsets_commands(broker, checkpointer, server.access),
        pausing_commands(broker, server.access),
        policy_commands(server.policies),
        permission_commands(server.access),
        replay_commands(broker, server.access, alarms, transfers),
        returning_commands(broker, server.access, alarms, transfers),
        setting_commands(server.config, alarms),
        shards_commands(broker, checkpointer, server.tasks.spawn),
        statistics_commands(broker, checkpointer),
        status_commands(sources),
        probe_commands(sources, compatible_version(server.config.present_version)),
        transfer_commands(transfers, server.access),
        unacked_commands(broker, connections),
        user_commands(server.access),
        vhost_commands(broker, server.vhost_changes, connections, server.access, server.parameters),
        queue_commands(broker, server.access),
        exchange_commands(broker, server.access),
        binding_commands(broker, server.access),
        message_commands(broker, server.access, alarms),
        connection_commands(connections, broker.turn),
        parameter_commands(broker, server.access, server.definitions.parts, server.parameters),
        shovel_commands(shovels),
        login_commands(
            server.config,
            server.context.handshake_factory,
            server.access,
            server.audit,
            broker.auth_attempts,
        ),
    )
    return {command.name: command for commands in families for command in commands}
