"""Where our tools are meant to differ from RabbitMQ 3.10's, and commands where they do not."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DIFFERENT_USAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "disable_auth_attempt_source_tracking": "RabbitMQ's names a verb that it does not have",
        "list_node_auth_attempt_stats": "RabbitMQ's names a verb that it does not have",
    }
)
"""Verbs that are written in another way."""

NOT_TOLD_WRONG: Final[Mapping[str, str]] = MappingProxyType(
    {
        **DIFFERENT_USAGES,
        "autocomplete": "its arguments are words of a shell",
        "eval": "RabbitMQ evaluates the first argument before it counts them",
        "eval_file": "RabbitMQ ends with a stack trace",
        "exec": "RabbitMQ runs its arguments, here",
        "help": "an option is no mistake there",
        "hipe_compile": "RabbitMQ writes into the directory that is its argument",
        "maybe_stuck": "RabbitMQ looks for five seconds first",
        "observer": "it wants a terminal",
        "remote_shell": "it wants a terminal",
        "trace_off": "RabbitMQ counts no arguments",
        "trace_on": "RabbitMQ counts no arguments",
    }
)
"""Verbs whose mistakes are not compared."""

DIFFERENT_LISTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "list_ciphers": "refused: no values are encrypted",
        "list_feature_flags": "those of the version that the server shows",
        "list_global_parameters": "RabbitMQ has a name of its cluster of one",
        "list_hashes": "refused: no values are encrypted",
        "list_node_auth_attempt_stats": "each broker counts what it was asked",
    }
)
"""Lists that have other rows."""

DIFFERENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rabbitmqctl set_parameter nosuch name 1": "parameters of any component are kept",
        "rabbitmqctl set_permissions guest *( .* .*": "the mistake is told in words of Python's",
        "rabbitmqctl list_users --formatter nosuch": "RabbitMQ ends with a stack trace",
        "rabbitmqctl list_users --timeout -1": "RabbitMQ ends with a stack trace",
        "rabbitmqctl environment": "settings of this server",
        "rabbitmqctl report": "the same parts of another server, without parameters",
        "rabbitmqctl schema_info": "refused: there are no tables of Mnesia",
        "rabbitmqctl eval 1+1.": "nothing of Erlang but alarms",
        "rabbitmqctl exec 1": "refused: nothing of Elixir",
        "rabbitmqctl encode value pass": "refused: no values are encrypted",
        "rabbitmqctl decode value pass": "refused: no values are encrypted",
        "rabbitmqctl sync_queue classic": "refused: there is no cluster",
        "rabbitmqctl cancel_sync_queue classic": "refused: there is no cluster",
        "rabbitmqctl forget_cluster_node rabbit@x": "refused: there is no cluster",
        "rabbitmqctl join_cluster rabbit@x": "refused: there is no cluster",
        "rabbitmqctl change_cluster_node_type disc": "refused: there is no cluster",
        "rabbitmqctl rename_cluster_node a b": "refused: there is no cluster",
        "rabbitmqctl update_cluster_nodes rabbit@x": "refused: there is no cluster",
        "rabbitmqctl force_boot": "refused: there is no cluster",
        "rabbitmqctl reset": "refused: a new data directory does the same",
        "rabbitmqctl force_reset": "refused: a new data directory does the same",
        "rabbitmq-queues add_member quorum rabbit@x": "refused: there is no cluster",
        "rabbitmq-queues delete_member quorum rabbit@x": "refused: there is no cluster",
        "rabbitmq-queues grow rabbit@x all": "refused: there is no cluster",
        "rabbitmq-queues shrink rabbit@x": "refused: there is no cluster",
        "rabbitmq-queues peek quorum 1": "refused: `amqp-server browse` does it for all queues",
        "rabbitmq-queues quorum_status quorum --formatter json": "there are no terms of Raft",
        "rabbitmq-diagnostics cipher_suites": "those of OpenSSL",
        "rabbitmq-diagnostics command_line_arguments": "words of another program",
        "rabbitmq-diagnostics enable_auth_attempt_source_tracking": "refused: the audit log does",
        "rabbitmq-diagnostics erlang_version": "refused: there is no Erlang",
        "rabbitmq-diagnostics erlang_cookie_hash": "refused: there is no Erlang",
        "rabbitmq-diagnostics erlang_cookie_sources": "refused: there is no Erlang",
        "rabbitmq-diagnostics list_network_interfaces": "refused: ask the operating system",
        "rabbitmq-diagnostics listeners": "other ports, and no clustering",
        "rabbitmq-diagnostics log_location": "the log is standard error",
        "rabbitmq-diagnostics log_tail": "another log",
        "rabbitmq-diagnostics memory_breakdown": "the process is not divided",
        "rabbitmq-diagnostics os_env": "variables of another server",
        "rabbitmq-diagnostics reset_node_auth_attempt_metrics": "refused: counters only grow",
        "rabbitmq-diagnostics stream_status stream --formatter json": "an empty one has no segment",
        "rabbitmq-diagnostics tls_versions": "versions before 1.2 are not safe",
        "rabbitmq-diagnostics check_port_listener 1": "other ports",
        "rabbitmq-diagnostics check_protocol_listener nosuch": "no clustering",
        "rabbitmq-diagnostics server_version": "another version",
        "rabbitmq-plugins list": "other plugins",
        "rabbitmq-plugins directories": "no directories",
    }
)
"""Commands that do something else, and why."""

SAMPLES: Final = """
rabbitmq-diagnostics discover_peers
rabbitmq-diagnostics discover_peers --formatter json
rabbitmqctl set_vhost_tags / a b
rabbitmqctl set_vhost_tags nosuch a
rabbitmqctl set_vhost_tags /
rabbitmqctl restart_vhost
rabbitmqctl restart_vhost -p nosuch
rabbitmqctl add_vhost typed --default-queue-type quorum --description some --tags a,b
rabbitmqctl list_vhosts name tags default_queue_type
rabbitmqctl delete_vhost typed
rabbitmqctl rotate_logs
rabbitmqctl force_gc
rabbitmqctl -q force_gc
rabbitmqctl suspend_listeners
rabbitmqctl resume_listeners
rabbitmqctl set_log_level debug
rabbitmqctl set_log_level info
rabbitmqctl set_log_level nosuch
rabbitmqctl set_disk_free_limit 2000000
rabbitmqctl set_disk_free_limit 1GB
rabbitmqctl set_disk_free_limit mem_relative 0.1
rabbitmqctl set_disk_free_limit mem_relative x
rabbitmqctl set_disk_free_limit xx
rabbitmqctl set_vm_memory_high_watermark 0
rabbitmqctl set_vm_memory_high_watermark absolute 0
rabbitmqctl set_vm_memory_high_watermark 0.4
rabbitmqctl set_vm_memory_high_watermark absolute 1GB
rabbitmqctl set_vm_memory_high_watermark 2
rabbitmqctl set_vm_memory_high_watermark xx
rabbitmqctl set_vm_memory_high_watermark absolute xx
rabbitmqctl list_unresponsive_queues
rabbitmqctl list_unresponsive_queues nosuch
rabbitmqctl node_health_check
rabbitmqctl await_online_nodes 1
rabbitmqctl await_online_nodes 2 -t 1
rabbitmqctl await_online_nodes x
rabbitmqctl autocomplete list_u
rabbitmqctl autocomplete zzz
rabbitmqctl help nosuch
rabbitmqctl list_user
rabbitmqctl add_usr x y
rabbitmqctl list_users -n
rabbitmqctl list_users -t x
rabbitmqctl list_users -t 1.5
rabbitmqctl list_users -x
rabbitmqctl list_users --priority 5
rabbitmqctl set_policy --priority x p ^q {}
rabbitmqctl list_vhosts nosuch
rabbitmqctl await_startup
rabbitmqctl delete_queue nosuch
rabbitmqctl purge_queue nosuch
rabbitmqctl close_connection <x> y
rabbitmqctl close_connection <rabbit@x.1.2.3> y
rabbitmqctl close_all_user_connections nosuch y
rabbitmqctl enable_feature_flag nosuch
rabbitmqctl enable_feature_flag quorum_queue
rabbitmqctl enable_feature_flag all
rabbitmqctl import_definitions /nosuch/file
rabbitmqctl export_definitions /nosuch/file
rabbitmqctl list_user_permissions nosuch
rabbitmqctl list_user_permissions guest --formatter json
rabbitmqctl list_user_topic_permissions guest
rabbitmqctl list_user_limits --user nosuch
rabbitmqctl list_user_limits --user guest
rabbitmqctl set_user_limits nosuch {}
rabbitmqctl clear_user_limits nosuch all
rabbitmqctl set_vhost_limits -p nosuch {}
rabbitmqctl clear_vhost_limits -p nosuch
rabbitmqctl clear_policy nosuch
rabbitmqctl clear_operator_policy nosuch
rabbitmqctl clear_global_parameter nosuch
rabbitmqctl set_permissions nosuch .* .* .*
rabbitmqctl set_permissions -p nosuch guest .* .* .*
rabbitmqctl clear_permissions nosuch
rabbitmqctl set_topic_permissions nosuch amq.topic .* .*
rabbitmqctl clear_topic_permissions nosuch
rabbitmqctl delete_user nosuch
rabbitmqctl delete_vhost nosuch
rabbitmqctl trace_on -p nosuch
rabbitmqctl start_app
rabbitmqctl set_cluster_name shop
rabbitmqctl -q list_global_parameters name
rabbitmq-diagnostics certificates
rabbitmq-diagnostics check_certificate_expiration
rabbitmq-diagnostics check_certificate_expiration --within 2 --unit weeks
rabbitmq-diagnostics check_certificate_expiration --unit nosuch
rabbitmq-diagnostics discover_peers --formatter json
rabbitmq-diagnostics resolver_info
rabbitmq-diagnostics resolve_hostname localhost --address-family ipv4
rabbitmq-diagnostics resolve_hostname nosuch.invalid
rabbitmq-diagnostics resolve_hostname localhost --address-family ipv5
rabbitmq-diagnostics memory_breakdown --unit nosuch
rabbitmq-diagnostics quorum_status nosuch
rabbitmq-diagnostics quorum_status classic
rabbitmq-diagnostics stream_status nosuch
rabbitmq-diagnostics stream_status classic
rabbitmq-queues reclaim_quorum_memory nosuch
rabbitmq-queues reclaim_quorum_memory classic
rabbitmq-queues reclaim_quorum_memory quorum
rabbitmq-queues peek nosuch 1
rabbitmq-queues peek classic 1
rabbitmq-queues rebalance nosuch
rabbitmq-queues check_if_node_is_quorum_critical
rabbitmq-diagnostics check_if_node_is_mirror_sync_critical
rabbitmq-diagnostics check_port_listener x
rabbitmq-diagnostics check_protocol_listener amqp
rabbitmq-diagnostics check_alarms
rabbitmq-diagnostics check_local_alarms
rabbitmq-diagnostics check_virtual_hosts
rabbitmq-diagnostics check_running
rabbitmq-diagnostics is_running
rabbitmq-diagnostics is_booting
rabbitmq-diagnostics ping
rabbitmq-diagnostics alarms
rabbitmq-diagnostics ping --formatter json
rabbitmq-diagnostics check_running --formatter json
rabbitmq-diagnostics is_running --formatter json
rabbitmq-diagnostics is_booting --formatter json
rabbitmq-diagnostics alarms --formatter json
rabbitmq-diagnostics check_virtual_hosts --formatter json
rabbitmq-plugins is_enabled rabbitmq_management
rabbitmq-plugins enable nosuch
rabbitmq-plugins list -m rabbitmq_management
rabbitmq-upgrade drain
rabbitmqctl list_queues name
rabbitmq-diagnostics check_running
rabbitmq-upgrade revive
rabbitmq-upgrade post_upgrade
rabbitmq-upgrade await_online_quorum_plus_one
rabbitmq-upgrade await_online_synchronized_mirror
rabbitmq-upgrade await_online_quorum_plus_one -t 5
"""
"""Commands that do the same, in this order."""
