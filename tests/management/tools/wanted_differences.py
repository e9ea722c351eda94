"""Where this server answers otherwise than RabbitMQ 3.10 on purpose, each with its reason."""

from typing import Final, NamedTuple


class Wanted(NamedTuple):
    """A difference that is meant.

    Attributes:
        title: Pattern that is found in the titles of steps.
        place: Pattern of the whole place.
        reason: Why.
    """

    title: str
    place: str
    reason: str


_ERLANG: Final = "RabbitMQ's inner parts, which are none of ours; no tool needs them"
_FAILURE: Final = "RabbitMQ fails here, with an empty 500; ours says what is wrong"
_NEWER: Final = "as RabbitMQ 4 does"
_NO_EXTENSION: Final = "there is none: an empty list"
_CLEARER: Final = "RabbitMQ prints Erlang terms; ours is a sentence"

WANTED: Final[tuple[Wanted, ...]] = (
    # What only RabbitMQ has
    Wanted("GET /nodes", r"shape(\[\])?\.(log|config)_files", "there may be none: an empty list"),
    Wanted("GET /queues", r"shape(\[\])?\.backing_queue_status\..*", _ERLANG),
    Wanted("GET /queues", r"shape(\[\])?\.(open_files)", _ERLANG),
    Wanted(r"GET /(queues|channels)/.* \(as ", "keys", _ERLANG),
    Wanted("GET /extensions", "shape|items", _NO_EXTENSION),
    Wanted("GET /feature-flags", "shape", _NO_EXTENSION),
    Wanted(
        "GET /(queues|vhosts/%2F/channels|connections/.connection./channels|channels)",
        r"shape(\[\])?\.idle_since",
        "shown by RabbitMQ even where nothing is idle",
    ),
    Wanted(
        "GET /queues",
        r"shape(\[\])?\.consumer_(capacity|utilisation)",
        "RabbitMQ's 0 is a whole number, its other values are not",
    ),
    Wanted(
        "GET /connections/.connection.",
        r"shape\.(ssl|peer_cert)_\w+|keys",
        "without TLS there is nothing to say of it, " + _NEWER,
    ),
    Wanted("GET /connections/.*_age=", r"shape\.reductions_details\..*", _ERLANG),
    Wanted(
        "GET /exchanges", r"value(\.(filtered|total)_count)?|items", "amq.rabbitmq.event is there"
    ),
    Wanted(
        r"GET /vhost-limits \(as monitoring\)",
        "items",
        "RabbitMQ lists virtual hosts whose limits are cleared",
    ),
    # What RabbitMQ 4 does
    Wanted("GET /definitions/", r"value\.(parameters|policies)\[\]\.vhost", _NEWER),
    Wanted("GET /definitions/", r"value\.rabbit_version", "the version that ours is like"),
    Wanted("/exchanges/%2F/nosuch/publish", "status", _NEWER),
    Wanted(r"\(not permitted\)", r"value\.reason", "names the permission, " + _NEWER),
    Wanted("operator-policies/.*overflow", "status", "operators may set it, " + _NEWER),
    # Refusals
    Wanted(
        "/exchanges/.*/publish .properties no table|PUT /users/wrong .*: 5",
        "status",
        _FAILURE,
    ),
    Wanted("no ackmode|/nodes/nosuch|/connections/nosuch/channels", "status", _FAILURE),
    Wanted(r"DELETE /(user|vhost)-limits/nosuch", "status", _FAILURE),
    Wanted(r"PUT /.*(: 5[,}]|'definition': 'x'|'arguments': 'x')", "status", _FAILURE),
    Wanted(r"POST /bindings/.*'arguments': 'x'", "status", _FAILURE),
    Wanted(
        r"GET /connections/username/guest \(as ",
        "status",
        _FAILURE,
    ),
    Wanted("PUT /(topic-)?permissions/.*'[(]'", r"value\.reason.*", _CLEARER),
    Wanted("PUT /exchanges/.*'type': 5", r"value\.reason", _CLEARER),
    Wanted(
        "PUT /exchanges/.*'type': 'nosuch'",
        r"value\.reason",
        "RabbitMQ says `unknown` as well, from the second time on",
    ),
    Wanted("POST /definitions .*'(queues|permissions)'", r"value\.reason", _CLEARER),
    Wanted(r'PUT /vhosts/wrong \("text"\)', r"value\.reason", "as for any other wrong JSON"),
    Wanted("PUT /users/wrong .*AAAA", "status", "a hash that nobody could log in with"),
    Wanted("PUT /users/wrong .*POR', 'tags'", "status", "RabbitMQ takes an unknown algorithm"),
    Wanted("max-queues .*-5", "status", "no limit is -1; RabbitMQ takes any negative number"),
    Wanted(
        "PUT /policies/",
        r"value\.reason",
        "RabbitMQ writes &lt; for <, which only pages of HTML need",
    ),
    Wanted("publish .keys are missing", r"value\.reason", "RabbitMQ breaks long lines"),
    Wanted("/get .a stream", r"value\.reason", "with the name of the code, as all such texts"),
    Wanted(
        "GET /whoami .(Digest x|nonsense)", "status", "unknown ways to log in are no login at all"
    ),
    # What there is and who sees it
    Wanted("GET /queues/%2F/nosuch/bindings", "value", "RabbitMQ makes one up for no queue"),
    Wanted("GET /bindings/nosuch/", "status", "an unknown virtual host is not found anywhere"),
    Wanted("protocol-listener/nosuch", r"value\.protocols.*", "the listeners that there are"),
    Wanted(r"GET /user-limits.*\(as ", "status", "limits of all users are for administrators only"),
    Wanted(
        r"GET /parameters/.*/walk/limits \(as policymaker\)",
        r"value\.reason",
        "the virtual host is what may not be seen",
    ),
    Wanted(
        r"GET /vhost-limits/walk \(as monitoring\)",
        "status",
        "the list shows it to monitors, the virtual host itself is not theirs",
    ),
    # HTTP
    Wanted("PATCH /nosuch", "status", "what there is not is not found by any method"),
    Wanted("PATCH /(user|vhost)-limits", "allow", "HEAD works wherever GET does"),
)
