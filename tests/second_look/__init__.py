"""What a run of the tests makes of failures: limits of time, and the second look."""
