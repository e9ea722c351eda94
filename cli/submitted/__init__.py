"""Programs that Spark starts."""
