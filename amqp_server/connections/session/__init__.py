"""One client's session: what it reads, handles and answers, from its greeting to its end.

`client_session` has the loop that handles one thing after another, and what the broker and the
connection ask of a session. Its parts: `session_machine` (how far it is, and what it takes steps
of), `session_input` (octets and events that wait), `session_login` (channel 0) and
`credential_expiry`, `session_channels`, `session_methods` (methods on channels), `session_closing`.
"""
