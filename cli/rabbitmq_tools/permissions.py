"""Verbs of permissions and topic permissions."""

from __future__ import annotations

from cli.rabbitmq_tools.asking import RefusedError
from cli.rabbitmq_tools.call import no_such_user
from cli.rabbitmq_tools.failures import NO_USER, UNAVAILABLE, ToolFailedError
from cli.rabbitmq_tools.output import Rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cli.rabbitmq_tools.call import Call

_RIGHTS = ("configure", "write", "read")
_TOPIC_RIGHTS = ("exchange", "write", "read")


def list_permissions(call: Call) -> Rows:
    """List who may do what in a virtual host."""
    call.banner(f'Listing permissions for vhost "{call.vhost}" ...')
    found = call.ask("permissions.list", vhost=call.known_vhost())
    return _rows(found, ("user", *_RIGHTS))


def list_topic_permissions(call: Call) -> Rows:
    """List who may use which routing keys in a virtual host."""
    call.banner(f'Listing topic permissions for vhost "{call.vhost}" ...')
    found = call.ask("topic_permissions.list", vhost=call.known_vhost())
    return _rows(found, ("user", *_TOPIC_RIGHTS))


def list_user_permissions(call: Call) -> Rows:
    """List what a user may do, in all virtual hosts."""
    call.banner(f'Listing permissions for user "{call.arguments[0]}" ...')
    return _rows(call.ask("permissions.list", user=_known_user(call)), ("vhost", *_RIGHTS))


def list_user_topic_permissions(call: Call) -> Rows:
    """List which routing keys a user may use, in all virtual hosts."""
    call.banner(f'Listing topic permissions for user "{call.arguments[0]}" ...')
    found = call.ask("topic_permissions.list", user=_known_user(call))
    # RabbitMQ 3.10 forgets the header here, and scripts count lines.
    return _rows(found, ("vhost", *_TOPIC_RIGHTS), has_header=False)


def set_permissions(call: Call) -> None:
    """Set what a user may do in a virtual host."""
    name, *patterns = call.arguments
    call.banner(f'Setting permissions for user "{name}" in vhost "{call.vhost}" ...')
    rights = dict(zip(_RIGHTS, patterns, strict=True))
    _change(call, "permissions.set", name, **rights)


def clear_permissions(call: Call) -> None:
    """Remove what a user may do in a virtual host."""
    name = call.arguments[0]
    call.banner(f'Clearing permissions for user "{name}" in vhost "{call.vhost}" ...')
    _demand(call, name)
    _change(call, "permissions.clear", name)


def set_topic_permissions(call: Call) -> None:
    """Set which routing keys a user may use at an exchange."""
    name, exchange, write, read = call.arguments
    where = f'user "{name}" in vhost "{call.vhost}"'
    call.banner(f'Setting topic permissions on "{exchange}" for {where} ...')
    _change(call, "topic_permissions.set", name, exchange=exchange, write=write, read=read)


def clear_topic_permissions(call: Call) -> None:
    """Remove such permissions: of one exchange, or of all."""
    name, *exchange = call.arguments
    at = f'on "{exchange[0]}" ' if exchange else ""
    call.banner(f'Clearing topic permissions {at}for user "{name}" in vhost "{call.vhost}" ...')
    _demand(call, name)
    more = {"exchange": exchange[0]} if exchange else {}
    _change(call, "topic_permissions.clear", name, **more)


def _rows(
    found: list[dict[str, str]], columns: tuple[str, ...], *, has_header: bool = True
) -> Rows:
    rows = [[row[column] for column in columns] for row in found]
    return Rows(columns, rows, has_header=has_header)


def _known_user(call: Call) -> str:
    name = call.arguments[0]
    if not call.ask("users.list", name=name):
        raise no_such_user(name)
    return name


def _demand(call: Call, name: str) -> None:
    """Check that a user exists, and the virtual host.

    Raises:
        ToolFailedError: One of them does not.
    """
    if not call.ask("users.list", name=name):
        raise _missing_user(name)
    try:
        call.ask("parameters.list", vhost=call.vhost, component="none")
    except RefusedError as refused:
        raise _missing_vhost(call.vhost) from refused


def _change(call: Call, command: str, name: str, **arguments: str) -> None:
    try:
        call.ask(command, vhost=call.vhost, user=name, **arguments)
    except RefusedError as refused:
        if refused.kind != "not_found":
            raise
        is_user = not call.ask("users.list", name=name)
        missing = _missing_user(name) if is_user else _missing_vhost(call.vhost)
        raise missing from refused


def _missing_user(name: str) -> ToolFailedError:
    return ToolFailedError(NO_USER, f"User {name} does not exist")


def _missing_vhost(name: str) -> ToolFailedError:
    return ToolFailedError(UNAVAILABLE, f"Virtual host {name} does not exist")
