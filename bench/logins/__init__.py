"""How long a user of the HTTP API waits while strangers try passwords: `python -m bench logins`."""
