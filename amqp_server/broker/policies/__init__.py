"""Policies: settings of queues and exchanges by pattern, in place of their arguments."""
