"""Starts Spark, and gives its workers what they need."""
