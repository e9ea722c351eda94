"""What the management server learns of the broker: rows of the objects that have changed."""
