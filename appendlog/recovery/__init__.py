"""Recovery of a log directory at a start: torn tails, damage, and the report."""
