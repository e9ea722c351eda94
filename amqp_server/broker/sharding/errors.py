"""Why shards are not made or deleted. Each text is one line for people."""


class ShardsError(Exception):
    """A change of shards that was not begun: nothing is different."""


class ShardArgumentError(ShardsError):
    """No shards can be as they were asked for."""


class ShardClashError(ShardsError):
    """What is there is something else, or in use."""


class ShardLimitError(ShardsError):
    """There is no room for so many."""


class NoSuchShardsError(ShardsError):
    """There are none of that name."""
