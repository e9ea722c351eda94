"""The HTTP layer: routes, logins, bodies, lists and answers, with RabbitMQ's rules and texts.

One file for each concept: `targets` (what a request line names), `routes`, `call` (one request of
a user), `answers` (what a handler gives back), `login`, `login_checks` and `sessions` (who asks),
`host_rule` (by which name), `bodies` and `values` (what was sent), `cross_origin` (pages of other
servers), `lists` (columns, order, pages), `responses` (octets, headers, compression), `exchange`
(one request from its line to its end), `sockets` (bounds of the connections).
"""
