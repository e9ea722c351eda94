"""What every floor of the server stands on: errors, limits, settings, clocks, tasks."""
