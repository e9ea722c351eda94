"""A scenario that uses everything that is durable.

On a good disk it is the same each time, operation by operation.
"""

from tests.faults.scenario import EXPIRING, TRANSIENT, Scenario

FORCE_SECONDS = 30
"""Age in seconds at which retention removes unsettled segments of one queue."""
LOG_TURNS = 60
"""More turns of the loop than a round of checkpoints takes."""


def play(scenario: Scenario) -> bool:
    """Play the whole scenario; return whether the server stopped cleanly at its end."""
    if not scenario.start():
        return False
    _begin(scenario)
    scenario.note_offsets()
    _work(scenario)
    _reclaim(scenario)
    scenario.note_offsets()
    scenario.stop()
    if not scenario.start():
        return False
    _go_on(scenario)
    scenario.note_offsets()
    return scenario.stop()


def play_unsynced_commit(scenario: Scenario) -> bool:
    """Commit to a queue that does not sync what it writes; return whether the stop was clean.

    Until a checkpoint has let its log be synced, only the redo file has the transaction. Here the
    log is slow: the rest of the checkpoint is done before its sync.
    """
    if not scenario.start():
        return False
    scenario.declare("plain")
    scenario.declare("written", **{"x-durability": "write"})
    scenario.publish(2, "plain")
    scenario.server.loop.log_turns = LOG_TURNS
    scenario.commit("plain", "written", "plain")
    for _ in range(3):
        scenario.checkpoint()
    return scenario.stop()


def _begin(scenario: Scenario) -> None:
    scenario.declare("plain")
    scenario.declare("dead", **{"x-compression": "zstd"})
    scenario.declare(
        "mortal", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    scenario.declare_exchange("direct")
    scenario.bind("direct", "plain", "plain")
    scenario.bind("direct", "mortal", "mortal")
    scenario.publish(6, "plain", "mortal", exchange="direct")
    scenario.publish(2, "plain", properties=TRANSIENT)


def _work(scenario: Scenario) -> None:
    taken = scenario.get("plain", 4)
    scenario.ack([taken[at] for at in (2, 0) if at < len(taken)])
    scenario.checkpoint()
    scenario.publish(10, "plain", "mortal")
    scenario.requeue(taken[1:2])
    scenario.reject(scenario.get("mortal", 2), "dead")
    scenario.commit("plain", "plain", "mortal")
    scenario.checkpoint()
    scenario.note_offsets()
    scenario.ack(scenario.get("plain", 7))
    scenario.checkpoint_during_publishes(7, "plain", "mortal")
    scenario.expire(scenario.publish(2, "mortal", properties=EXPIRING), "dead")
    scenario.declare("brief")
    scenario.publish(3, "brief")
    scenario.purge("brief")
    scenario.publish(2, "brief")
    scenario.delete("brief")
    scenario.declare("brief")
    scenario.publish(3, "brief")
    scenario.ack(scenario.get("brief", 1))
    scenario.get("plain", 2)


def _reclaim(scenario: Scenario) -> None:
    """Let segments be rewritten, be kept, and be removed with their messages."""
    scenario.declare("pinned")
    scenario.declare("kept", **{"x-retain-bytes": 2500})
    scenario.declare("forced", **{"x-force-remove-after": FORCE_SECONDS * 1000})
    scenario.publish(39, "pinned", "kept", "forced")
    pinned = scenario.get("pinned", 13)
    scenario.ack([held for at, held in enumerate(pinned) if at % 5])
    scenario.ack(scenario.get("kept", 12))
    lease = scenario.lease("pinned")
    scenario.checkpoint()
    scenario.note_reclaimed("pinned")
    if lease is not None:
        assert not scenario.reclaimed["pinned"], "compaction rewrote a leased segment"
        lease.end()
    for _ in range(3):
        scenario.checkpoint()
    scenario.requeue(pinned[5:6])
    scenario.force("forced", FORCE_SECONDS)
    scenario.note_reclaimed("pinned", "kept", "forced")


def _go_on(scenario: Scenario) -> None:
    scenario.publish(3, "plain", "brief")
    scenario.commit("mortal", "dead", "plain", "brief", count=6)
    scenario.purge("mortal")
    scenario.ack(scenario.get("plain", 3))
    scenario.checkpoint()
    scenario.publish(4, "plain", "dead")
