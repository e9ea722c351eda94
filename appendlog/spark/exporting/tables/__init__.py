"""Tables that an export can add to: Delta Lake and Iceberg."""
