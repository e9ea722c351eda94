"""The control socket: how commands talk to the running server; see docs/control.md."""
