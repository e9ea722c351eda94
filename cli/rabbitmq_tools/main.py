"""Runs one of the tools: finds the verb, calls it, writes its result."""

from __future__ import annotations

import os
import sys

from cli.rabbitmq_tools.asking import RefusedError, Server
from cli.rabbitmq_tools.call import Call
from cli.rabbitmq_tools.command_line import CommandLine
from cli.rabbitmq_tools.failures import USAGE, SuspendedError, ToolFailedError, UsageError
from cli.rabbitmq_tools.output import lines
from cli.rabbitmq_tools.verbs import VERBS, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
NO_READER = 141


def run(tool: str, storage_path: str, words: Sequence[str]) -> int:
    """Run a tool; return the exit code of the process.

    Args:
        tool: Name of the tool, such as `rabbitmqctl`.
        storage_path: Data directory of the server unless AMQP_SERVER_STORAGE_PATH names one.
        words: Command line without the name of the tool.
    """
    try:
        code = _run(tool, os.environ.get("AMQP_SERVER_STORAGE_PATH") or storage_path, words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What the interpreter would write at its end fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return NO_READER
    return code


def _run(tool: str, storage_path: str, words: Sequence[str]) -> int:
    verb: Verb | None = None
    try:
        line = CommandLine(words)
        if line.verb is None or "help" in line.options or "list-commands" in line.options:
            return _help(tool, line)
        verb = VERBS.get(line.verb)
        if verb is None or tool not in verb.tools:
            return _unknown(tool, line.verb)
        verb.check(line)
        node = line.options.get("node") or f"rabbit@{os.uname().nodename.partition('.')[0]}"
        server = Server(storage_path, node, line.seconds_max)
        try:
            _call(verb, line, server, tool, node)
        finally:
            server.close()
    except ToolFailedError as failure:
        return _fail(failure, tool, words, verb)
    except RefusedError as refused:
        return _fail(refused.failure(), tool, words, verb)
    return 0


def _call(verb: Verb, line: CommandLine, server: Server, tool: str, node: str) -> None:
    call = Call(line, server, node, tool)
    if verb.needs_service and server.ask("probe")["is_suspended"]:
        raise SuspendedError(tool)
    result = verb.load()(call)
    for each in lines(result, call.formatter, node, has_header=line.has_header):
        sys.stdout.write(each + "\n")


def _fail(failure: ToolFailedError, tool: str, words: Sequence[str], verb: Verb | None) -> int:
    sys.stdout.flush()
    text = failure.text
    if isinstance(failure, UsageError):
        usage = "" if verb is None else verb.usage
        text += f"\nArguments given:\n\t{' '.join(words)}\n\n\x1b[1mUsage\x1b[0m\n\n"
        text += f"{tool} [--node <node>] [--longnames] [--quiet] {usage}"
    sys.stderr.write(text + "\n")
    return failure.code


def _unknown(tool: str, verb: str) -> int:
    from cli.rabbitmq_tools.helping import fail_unknown

    return fail_unknown(tool, verb)


def _help(tool: str, line: CommandLine) -> int:
    from cli.rabbitmq_tools.helping import about_tool, about_verb

    verb = VERBS.get(line.verb or "")
    if verb is not None and tool in verb.tools and "list-commands" not in line.options:
        sys.stdout.write(about_verb(tool, str(line.verb)) + "\n")
        return 0
    is_asked = line.verb == "help" or "help" in line.options
    stream = sys.stdout if is_asked else sys.stderr
    stream.write(about_tool(tool) + "\n")
    return 0 if is_asked else USAGE
