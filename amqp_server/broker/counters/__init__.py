"""What the broker counts of its traffic: once a batch, and not once a message."""
