"""What users see, written down: a change that is meant to change nothing leaves these files equal.

`python -m tests.frozen` writes the files of `seen/` again; the diff shows what users will notice.
docs/testing.md says what each file holds.
"""
