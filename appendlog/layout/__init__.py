"""What docs/log-format.md draws: sizes, chunks, records, messages, headers and footers.

Pure: nothing here opens a file.
"""
