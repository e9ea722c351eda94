"""Verbs of settings: what is in effect, and what changes until the next start."""

from __future__ import annotations

import re

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.failures import DATA, UNAVAILABLE, ToolFailedError, UsageError
from cli.rabbitmq_tools.output import Message
from cli.rabbitmq_tools.values import erlang

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

_LEVELS = ("debug", "info", "warning", "error", "critical", "none")
_UNITS = {
    "": 1,
    "k": 1 << 10,
    "kib": 1 << 10,
    "kb": 10**3,
    "m": 1 << 20,
    "mib": 1 << 20,
    "mb": 10**6,
    "g": 1 << 30,
    "gib": 1 << 30,
    "gb": 10**9,
    "t": 1 << 40,
    "tib": 1 << 40,
    "tb": 10**12,
}
_SECRET = re.compile(r"PASS|SECRET|TOKEN|COOKIE")


def environment(call: Call) -> Message:
    """Show the settings that are in effect, without passwords."""
    call.banner(f"Application environment of node {call.node} ...")
    found = call.ask("settings.list")
    pairs = [f"{{{name},{erlang(value)}}}" for name, value in found.items()]
    text = "[{amqp_server,\n     [" + ",\n      ".join(pairs) + "]}]"
    return Message(text, {"amqp_server": found})


def os_env(call: Call) -> Message:
    """Show the environment variables of the server that are settings; passwords are hidden."""
    call.banner(f"Listing RabbitMQ-specific environment variables defined on node {call.node}...")
    pairs = dict(
        word.partition("=")[::2]
        for word in _of_process(call, "environ")
        if word.startswith(("RABBITMQ_", "AMQP_SERVER_"))
    )
    shown = {name: "(hidden)" if _SECRET.search(name) else pairs[name] for name in sorted(pairs)}
    return Message("\n".join(f"{name}={value}" for name, value in shown.items()), shown)


def command_line_arguments(call: Call) -> Message:
    """Show the command line of the server."""
    call.banner(f"Command line arguments of node {call.node} ...")
    words = _of_process(call, "cmdline")
    return Message("\n".join(words), {"arguments": words})


def set_log_level(call: Call) -> None:
    """Set the level of the log until the next start."""
    level = call.arguments[0]
    if level not in _LEVELS:
        text = f"level {level} is not supported. Try one of {', '.join(_LEVELS)}"
        raise ToolFailedError(UNAVAILABLE, text)
    call.banner(f'Setting log level to "{level}" ...')
    # Nothing is less than errors here.
    call.ask("settings.set_log_level", level=level if level in _LEVELS[:4] else "error")


def set_disk_free_limit(call: Call) -> None:
    """Set the limit of the disk alarm until the next start."""
    about = f"Setting disk free limit on {call.node} to"
    first, *rest = call.arguments
    if first == "mem_relative" and len(rest) == 1:
        times = _number(rest[0])
        if times is None:
            raise _bad()
        call.banner(f"{about} {rest[0]} times the total RAM ...")
        from amqp_server.upkeep.resource_sensor import available_memory_bytes

        limit = int(times * available_memory_bytes())
    else:
        size = _size(first)
        if rest or size is None:
            raise _bad()
        call.banner(f"{about} {first} bytes ...")
        limit = size
    _change(call, "settings.set_disk_limit", bytes_min=limit)


def set_vm_memory_high_watermark(call: Call) -> None:
    """Set the limit of the memory alarm until the next start."""
    about = f"Setting memory threshold on {call.node} to"
    first, *rest = call.arguments
    if first == "absolute" and len(rest) == 1:
        size = _size(rest[0])
        if size is None:
            raise _bad()
        call.banner(f"{about} {rest[0]} bytes ...")
        _change(call, "settings.set_memory_limit", watermark=str(size))
        return
    share = _number(first)
    if rest or share is None:
        raise _bad()
    if not 0 <= share <= 1:
        raise _bad(": The threshold should be a fraction between 0.0 and 1.0")
    call.banner(f"{about} {first} ...")
    _change(call, "settings.set_memory_limit", watermark=first)


def _change(call: Call, command: str, **arguments: object) -> None:
    try:
        call.ask(command, **arguments)
    except RefusedError as refused:
        raise ToolFailedError(UNAVAILABLE, refused.reason) from refused


def _bad(why: str = ".") -> UsageError:
    return UsageError(f"Bad argument{why}", DATA)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII) else None


def _size(text: str) -> int | None:
    found = re.fullmatch(r"(\d{1,18})([A-Za-z]*)", text, re.ASCII)
    if found is None or found[2].lower() not in _UNITS:
        return None
    return int(found[1]) * _UNITS[found[2].lower()]


def _of_process(call: Call, name: str) -> list[str]:
    pid = call.ask("probe")["pid"]
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - see the package
            octets = file.read()
    except OSError as error:
        text = f"process {pid} of the server cannot be read: {error.strerror}"
        raise ToolFailedError(UNAVAILABLE, text) from error
    return [word.decode("utf-8", "replace") for word in octets.split(b"\0") if word]
