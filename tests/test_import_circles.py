"""Files of the broker that import each other in a circle, counting imports for types.

A circle is a group of files that can only be understood together. Contracts of `import-linter` keep
whole rooms apart; this names the circles that are left, so that none grows unseen.
"""

import grimp

BROKER = "amqp_server.broker"
CIRCLES = [
    {"broker", "channel", "consuming.ending", "deletion", "transactions.commit"},
    {
        "counters.channel_counters",
        "counters.counted_channels",
        "counters.delivery_pair",
        "counters.owners",
        "counters.publish_pair",
    },
    {"consuming.consumer", "consuming.consumer_rotation", "consuming.source"},
    {"binding", "exchange"},
    {"subscriptions.group", "subscriptions.group_subscription"},
]
"""What is left: a channel and its counters, a queue's consumers and their rotation, and so on."""


def circles_of(package: str) -> list[set[str]]:
    """Return the largest groups of modules in which each reaches each, without the package."""
    graph = grimp.build_graph(package.partition(".")[0], exclude_type_checking_imports=False)
    modules = graph.find_descendants(package)
    reached: dict[str, set[str]] = {}
    for module in modules:
        found: set[str] = set()
        pending = [module]
        while pending:
            new = graph.find_modules_directly_imported_by(pending.pop()) & modules - found
            found |= new
            pending += new
        reached[module] = found
    groups = {
        frozenset(other for other in reached[module] if module in reached[other])
        for module in modules
    }
    names = [{module.removeprefix(f"{package}.") for module in group} for group in groups if group]
    return sorted(names, key=lambda group: (-len(group), sorted(group)))


def test_the_circles_of_the_broker_are_the_known_ones() -> None:
    assert circles_of(BROKER) == CIRCLES
