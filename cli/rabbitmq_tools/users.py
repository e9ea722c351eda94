"""Verbs of users. The server hashes a password as `amqp-server users add` does."""

from __future__ import annotations

import sys

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.call import no_such_user, no_user
from cli.rabbitmq_tools.failures import DATA, SOFTWARE, UNAVAILABLE, USAGE, ToolFailedError
from cli.rabbitmq_tools.output import WITHOUT_BANNER, Message, Rows
from cli.rabbitmq_tools.values import Atom

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cli.rabbitmq_tools.call import Call

_PASSWORD_BYTES_MAX = 1024
_NO_PASSWORD = {"password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256"}
"""Stored password hash of a user whom no password logs in."""


def list_users(call: Call) -> Rows:
    """List the users with their tags."""
    call.banner("Listing users ...")
    users = call.ask("users.list")
    rows = [(user["name"], list(map(Atom, user["tags"]))) for user in users]
    return Rows(("user", "tags"), rows)


def add_user(call: Call) -> Message | None:
    """Add a user without permissions."""
    name = call.arguments[0]
    password = _password(call, without=DATA)
    call.banner(f'Adding user "{name}" ...')
    try:
        call.ask("users.add", name=name, tags=[], **_hash(call, password))
    except RefusedError as refused:
        if refused.kind == "already_exists":
            raise ToolFailedError(SOFTWARE, f'User "{name}" already exists') from refused
        raise
    if call.has_notes:
        return Message(
            "Done. Don't forget to grant the user permissions to some virtual hosts! See "
            "'rabbitmqctl help set_permissions' to learn more."
        )
    return None


def delete_user(call: Call) -> None:
    """Delete a user, and close its connections."""
    name = call.arguments[0]
    call.banner(f'Deleting user "{name}" ...')
    _change(call, "users.delete", name)


def change_password(call: Call) -> None:
    """Replace the password of a user."""
    name = call.arguments[0]
    password = _password(call)
    call.banner(f'Changing password for user "{name}" ...')
    _change(call, "users.change_password", name, **_hash(call, password))


def clear_password(call: Call) -> None:
    """Let no password log a user in."""
    name = call.arguments[0]
    call.banner(f'Clearing password for user "{name}" ...')
    try:
        call.ask("users.change_password", name=name, **_NO_PASSWORD)
    except RefusedError as refused:
        raise no_such_user(name) if refused.kind == "not_found" else refused from refused


def set_user_tags(call: Call) -> None:
    """Replace the tags of a user."""
    name, *tags = call.arguments
    tags = [tag for word in tags for tag in word.split(",") if tag]
    call.banner(f'Setting tags for user "{name}" to [{", ".join(tags)}] ...')
    _change(call, "users.set_tags", name, tags=tags)


def authenticate_user(call: Call) -> Message:
    """Check a password, as a login from this machine would."""
    name = call.arguments[0]
    password = _password(call)
    call.banner(f'Authenticating user "{name}" ...')
    try:
        call.ask("logins.check", user=name, password=password, peer_host="127.0.0.1")
    except RefusedError as refused:
        text = f"Error: failed to authenticate user \"{name}\"\nuser '{name}' - invalid credentials"
        raise ToolFailedError(DATA, text) from refused
    return Message("Success")


def list_node_auth_attempt_stats(call: Call) -> Rows | Message:
    """List how many logins were tried; with `--by-source` see the audit log."""
    if "by-source" in call.options:
        text = "the audit log has the source of each login: see `amqp-server audit`"
        raise ToolFailedError(UNAVAILABLE, text)
    call.banner(f'Listing authentication\n attempts for node "{call.node}" ...')
    from cli.rabbitmq_tools.rows import rows_and_state

    totals = rows_and_state(call)[1]["totals"]
    names = ("auth_attempts", "auth_attempts_failed", "auth_attempts_succeeded")
    rows = [
        [Atom(protocol), *(totals[field][name] for name in names)]
        for protocol, field in (("amqp091", "auth_attempts"), ("http", "auth_attempts_http"))
        if totals[field]["auth_attempts"]
    ]
    if not rows and call.formatter not in WITHOUT_BANNER:
        return Message(f"Node {call.node} reported no authentication attempt stats")
    return Rows(("protocol", *names), rows)


def _password(call: Call, *, without: int = SOFTWARE) -> str:
    """Return the password from the command line, or from a line of standard input.

    Args:
        call: The call.
        without: Exit code when standard input has ended; a line without text is a blank password.
    """
    if len(call.arguments) > 1:
        password = call.arguments[1]
    else:
        if sys.stdin.isatty():
            sys.stderr.write("Password: ")
        octets = sys.stdin.buffer.readline(_PASSWORD_BYTES_MAX + 2)
        if not octets:
            raise ToolFailedError(without, "Password is not provided via argument or stdin")
        password = octets.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if len(password.encode("utf-8", "surrogateescape")) > _PASSWORD_BYTES_MAX:
        text = f"a password has at most {_PASSWORD_BYTES_MAX} bytes"
        raise ToolFailedError(USAGE, text)
    return password


def _hash(call: Call, password: str) -> dict[str, Any]:
    if "pre-hashed-password" in call.options:
        algorithm = "rabbit_password_hashing_sha256"
        return {"password_hash": password, "hashing_algorithm": algorithm}
    if not password:
        # As in RabbitMQ: a blank password is taken, and allows no login.
        return _NO_PASSWORD
    hashed: dict[str, Any] = call.ask("passwords.hash", password=password)
    return hashed


def _change(call: Call, command: str, name: str, **arguments: object) -> None:
    try:
        call.ask(command, name=name, **arguments)
    except RefusedError as refused:
        raise no_user(name) if refused.kind == "not_found" else refused from refused
