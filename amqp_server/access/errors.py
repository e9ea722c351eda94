"""Why a change of users or permissions is refused."""


class AccessError(Exception):
    """A change was refused; nothing has changed."""


class NoSuchUserError(AccessError):
    """There is no user with this name."""


class UserExistsError(AccessError):
    """A user with this name exists already."""


class TooManyUsersError(AccessError):
    """The server has as many users as allowed."""


class NoSuchVhostError(AccessError):
    """There is no virtual host with this name."""
