"""Why shards are not created or deleted. Each text is one line for people."""


class ShardsError(Exception):
    """A change of shards was refused; nothing has changed."""


class ShardArgumentError(ShardsError):
    """The arguments of the command do not allow such shards."""


class ShardClashError(ShardsError):
    """An existing object differs from the set's, or is in use."""


class ShardLimitError(ShardsError):
    """The set would exceed a limit of its virtual host."""


class NoSuchShardsError(ShardsError):
    """There is no set of shards with this name."""
