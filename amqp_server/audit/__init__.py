"""The audit log: who created, deleted, purged or changed what, from where and when."""
