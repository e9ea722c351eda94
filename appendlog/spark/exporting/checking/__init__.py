"""Reads what is in an output, and checks that it is complete; changes nothing."""
