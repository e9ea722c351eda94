"""Decodes the records of a log into Arrow record batches."""
