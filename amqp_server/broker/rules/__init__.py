"""What a queue does by itself: expiry, limits, counts, its own end."""
