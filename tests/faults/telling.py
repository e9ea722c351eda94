"""The story of a server whose disk fails: it uses all that is durable.

On a good disk it is the same each time, operation by operation.
"""

from tests.faults.story import EXPIRING, TRANSIENT, Story

FORCE_SECONDS = 30
"""Age at which segments of one queue go by force."""


def tell(story: Story) -> bool:
    """Go through the whole story; return whether the server stopped cleanly at its end."""
    if not story.start():
        return False
    _begin(story)
    story.note_offsets()
    _work(story)
    _reclaim(story)
    story.note_offsets()
    story.stop()
    if not story.start():
        return False
    _go_on(story)
    story.note_offsets()
    return story.stop()


def _begin(story: Story) -> None:
    story.declare("plain")
    story.declare("dead", **{"x-compression": "zstd"})
    story.declare("mortal", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    story.declare_exchange("direct")
    story.bind("direct", "plain", "plain")
    story.bind("direct", "mortal", "mortal")
    story.publish(6, "plain", "mortal", exchange="direct")
    story.publish(2, "plain", properties=TRANSIENT)


def _work(story: Story) -> None:
    taken = story.get("plain", 4)
    story.ack([taken[at] for at in (2, 0) if at < len(taken)])
    story.checkpoint()
    story.publish(10, "plain", "mortal")
    story.requeue(taken[1:2])
    story.reject(story.get("mortal", 2), "dead")
    story.commit("plain", "plain", "mortal")
    story.checkpoint()
    story.note_offsets()
    story.ack(story.get("plain", 7))
    story.checkpoint_meanwhile(7, "plain", "mortal")
    story.expire(story.publish(2, "mortal", properties=EXPIRING), "dead")
    story.declare("brief")
    story.publish(3, "brief")
    story.purge("brief")
    story.publish(2, "brief")
    story.delete("brief")
    story.declare("brief")
    story.publish(3, "brief")
    story.ack(story.get("brief", 1))
    story.get("plain", 2)


def _reclaim(story: Story) -> None:
    """Let segments be written anew, be kept, and be removed with what is in them."""
    story.declare("pinned")
    story.declare("kept", **{"x-retain-bytes": 2500})
    story.declare("forced", **{"x-force-remove-after": FORCE_SECONDS * 1000})
    story.publish(39, "pinned", "kept", "forced")
    pinned = story.get("pinned", 13)
    story.ack([held for at, held in enumerate(pinned) if at % 5])
    story.ack(story.get("kept", 12))
    lease = story.lease("pinned")
    story.checkpoint()
    story.note_reclaimed("pinned")
    if lease is not None:
        assert not story.reclaimed["pinned"], "what is leased was written anew"
        lease.end()
    for _ in range(3):
        story.checkpoint()
    story.requeue(pinned[5:6])
    story.force("forced", FORCE_SECONDS)
    story.note_reclaimed("pinned", "kept", "forced")


def _go_on(story: Story) -> None:
    story.publish(3, "plain", "brief")
    story.commit("mortal", "dead", "plain", "brief", count=6)
    story.purge("mortal")
    story.ack(story.get("plain", 3))
    story.checkpoint()
    story.publish(4, "plain", "dead")
