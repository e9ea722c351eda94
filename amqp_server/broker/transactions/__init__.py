"""Transactions: what is held back, and the commit that does all of it."""
