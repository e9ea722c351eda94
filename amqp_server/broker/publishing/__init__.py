"""What clients publish: checked, enqueued, confirmed."""
