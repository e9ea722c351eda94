"""Verbs of plugins: the server has none to switch, and takes what its parts do as enabled."""

from __future__ import annotations

import re

from cli.rabbitmq_tools.failures import SOFTWARE, UNAVAILABLE, ToolFailedError, UsageError
from cli.rabbitmq_tools.output import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

BUILT_IN = (
    "rabbitmq_auth_backend_http",
    "rabbitmq_auth_backend_oauth2",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
    "rabbitmq_random_exchange",
    "rabbitmq_shovel",
    "rabbitmq_shovel_management",
)
"""Plugins of RabbitMQ whose work the server always does."""


def list(call: Call) -> Message:  # noqa: A001 - named as the verb
    """List the plugins whose work the server does; all of them are enabled."""
    pattern = call.arguments[0] if call.arguments else ""
    try:
        names = [name for name in BUILT_IN if re.search(pattern, name)]
    except re.error as error:
        raise UsageError(f"the pattern is no regular expression: {error}") from error
    banner = f'Listing plugins with pattern "{pattern or ".*"}" ...'
    if "minimal" in call.options:
        lines = [*([banner] if call.has_notes else ()), *names]
    else:
        width = max(map(len, names), default=0)
        version = call.ask("probe")["compatible_version"]
        lines = [f"[E*] {name.ljust(width)} {version}" for name in names]
        if call.has_notes:
            lines = [
                banner,
                " Configured: E = explicitly enabled; e = implicitly enabled",
                f" | Status: * = running on {call.node}",
                " |/",
                *lines,
            ]
    value = {
        "format": "minimal" if "minimal" in call.options else "normal",
        "plugins": [{"name": name, "enabled": "enabled", "running": True} for name in names],
        "status": "running",
    }
    return Message("\n".join(lines), value)


def enable(call: Call) -> Message | None:
    """Accept plugins whose work the server does."""
    return _switch(call, "Enabling plugins")


def set(call: Call) -> Message | None:  # noqa: A001 - named as the verb
    """Accept plugins whose work the server does."""
    return _switch(call, "Enabling plugins")


def disable(call: Call) -> Message | None:
    """Accept the names of plugins; what the server does stays."""
    return _switch(call, "Disabling plugins", refuses=False)


def is_enabled(call: Call) -> Message:
    """Check that the server does the work of plugins."""
    names = call.arguments
    one = len(names) == 1
    what = f"plugin {names[0]} is" if one else f"plugins {', '.join(names)} are"
    call.banner(f"Asking node {call.node} if {what} enabled...")
    missing = [name for name in names if name not in BUILT_IN]
    if missing:
        text = f"Plugin {missing[0]} is not enabled on node {call.node}. Enabled plugins and "
        text += f"dependencies: {', '.join(BUILT_IN)}"
        raise ToolFailedError(UNAVAILABLE, text)
    return Message(f"{what[0].upper()}{what[1:]} enabled on node {call.node}")


def directories(_call: Call) -> Message:
    """Show that there are no directories of plugins."""
    return Message(
        "Plugin archives directory: (none)\nPlugin expansion directory: (none)\n"
        "Enabled plugins file: (none)"
    )


def _switch(call: Call, what: str, *, refuses: bool = True) -> Message | None:
    """Accept plugins; `refuses` those whose work the server does not do."""
    names = [name for word in call.arguments for name in word.split(",") if name]
    call.banner(f"{what} on node {call.node}:")
    for name in names:
        call.banner(name)
    unknown = [name for name in names if name not in BUILT_IN]
    if refuses and unknown:
        atoms = ", ".join(f":{name}" for name in unknown)
        raise ToolFailedError(SOFTWARE, f"{{:plugins_not_found, [{atoms}]}}")
    lines = ["The following plugins have been configured:"]
    lines += [f"  {name}" for name in BUILT_IN]
    lines += [f"Applying plugin configuration to {call.node}...", "Plugin configuration unchanged."]
    return Message("\n".join(lines)) if call.has_notes else None
