"""What clients publish: assembled, checked, enqueued, confirmed."""
