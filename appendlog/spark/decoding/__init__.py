"""Records of a log to Arrow record batches."""
