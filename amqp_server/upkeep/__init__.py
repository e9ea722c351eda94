"""What works and watches in the background: commits, checkpoints, compaction, reclaim, alarms."""
