"""Definitions of the whole server or of one virtual host: `/api/definitions`.

An import makes all changes or none. This process parses the file, which takes long, and gives the
broker its entries one a line.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.management.broker_client import BrokerRefused
from amqp_server.management.http.answers import (
    JSON,
    NO_CONTENT,
    NOTHING,
    Answer,
    AnyAnswer,
    ApiError,
    Octets,
    bad_request,
    ok,
    vhost_not_found,
)
from amqp_server.management.http.call import Tag
from amqp_server.management.http.routes import Route
from amqp_server.management.resources.definitions_file import (
    DefinitionsFile,
    NoDefinitionsError,
    parse_file,
)
from amqp_server.management.resources.form_data import FormError, form_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.management.broker_client import BrokerClient
    from amqp_server.management.http.call import Call
    from amqp_server.management.http.parts import Parts

UPLOAD_CHARACTERS: Final = 128 * 1024
"""Characters of one part of the entries: a request has 1 MiB at most, and a character 6 bytes."""
EXPORTS_MAX: Final = 2
"""Exports that are made at the same time; others wait: each may take 100 MB of memory."""
_UNPARSABLE: Final = "failed_to_parse_json"
_REDIRECT_CHARACTERS_MAX: Final = 1000


class _Definitions:
    def __init__(self, parts: Parts) -> None:
        self._broker = parts.broker
        # One at a time: each takes much memory here, and the broker does one after the other.
        self._one_at_a_time = asyncio.Lock()
        self._room = asyncio.Semaphore(EXPORTS_MAX)

    async def export(self, call: Call) -> AnyAnswer:
        """Return all definitions, or those of one virtual host."""
        async with self._room:
            return await self._export(call)

    async def _export(self, call: Call) -> AnyAnswer:
        vhost = call.segments.get("vhost", "")
        head: dict[str, Any] = {}
        sections: dict[str, list[bytes]] = {}
        queues: set[tuple[object, str]] = set()

        def take(report: dict[str, Any]) -> None:
            if "head" in report:
                head.update(report["head"])
                return
            section, entries = report["section"], report["entries"]
            if section == "queues":
                queues.update((each.get("vhost"), each["name"]) for each in entries)
            if section == "bindings":
                # A client may have bound a queue that was declared after the queues were listed.
                entries = [
                    each
                    for each in entries
                    if each["destination_type"] != "queue"
                    or (each.get("vhost"), each["destination"]) in queues
                ]
            sections.setdefault(section, []).extend(map(orjson.dumps, entries))

        arguments = {"vhost": vhost, "with_head": True}
        try:
            counts = await self._broker.call("definitions.export", arguments, call.actor, take)
        except BrokerRefused as refused:
            if refused.kind == "not_found":
                raise bad_request("vhost_not_found") from refused
            raise
        members = [orjson.dumps(head)[1:-1]]
        members += [
            _list(section, sections.get(section, []))
            for section in counts
            if not vhost or section not in _OF_CLUSTER
        ]
        headers = {}
        if name := call.query.get("download"):
            headers["content-disposition"] = f"attachment; filename={_file_name(name)}"
        return Octets(HTTPStatus.OK, JSON, b"{" + b",".join(members) + b"}", headers)

    async def take(self, call: Call) -> AnyAnswer:
        """Import a file, in JSON or from a form."""
        vhost = call.segments.get("vhost", "")
        content, redirect = await _content(call)
        async with self._one_at_a_time:
            report = await self._import(call, content, vhost)
        if call.flag("dry_run") or call.flag("report"):
            return ok(report)
        if redirect:
            return Answer(HTTPStatus.SEE_OTHER, NOTHING, {"location": redirect})
        return NO_CONTENT

    async def _import(self, call: Call, content: bytes, vhost: str) -> Any:  # noqa: ANN401 - JSON
        try:
            # The library keeps the interpreter for all of it; health checks wait that long.
            found = await asyncio.to_thread(parse_file, content)
        except NoDefinitionsError as error:
            raise bad_request(str(error) or _UNPARSABLE) from error
        if found.is_single_vhost and not vhost:
            raise bad_request(
                "The file has the definitions of one virtual host: "
                "import it at /api/definitions/VHOST"
            )
        await _hash_passwords(self._broker, found)
        try:
            file = await self._upload(call, found, vhost)
            arguments = {
                "file": file,
                "vhost": vhost,
                "rabbit_version": found.rabbit_version,
                "dry_run": call.flag("dry_run"),
            }
            return await self._broker.call("definitions.import", arguments, call.actor)
        except BrokerRefused as refused:
            raise _refusal(refused, vhost) from refused

    async def _upload(self, call: Call, found: DefinitionsFile, vhost: str) -> str:
        file = ""
        for lines in _parts_of(found.lines(for_vhost=bool(vhost))):
            arguments = {"file": file, "lines": lines}
            file = await self._broker.call("definitions.upload", arguments, call.actor)
        return file


_OF_CLUSTER: Final = ("vhosts", "users", "permissions", "topic_permissions", "global_parameters")
"""Sections that the definitions of one virtual host do not have."""


def _list(section: str, entries: list[bytes]) -> bytes:
    return orjson.dumps(section) + b":[" + b",".join(entries) + b"]"


def _file_name(name: str) -> str:
    """Return the name of a file for a header: nothing in it can end the header or its value."""
    kept = "".join(each for each in name if each.isascii() and (each.isalnum() or each in "._-@"))
    return kept[:255] or "definitions.json"


async def _content(call: Call) -> tuple[bytes, str]:
    """Return the file in a request, and where a form wants to go afterwards.

    Raises:
        ApiError: 415: it is neither JSON nor a form; 400: the form has no file.
    """
    kind = call.headers.get("Content-Type", "")
    name = kind.partition(";")[0].strip().lower()
    octets = await call.octets()
    if name == JSON:
        return octets, ""
    if name != "multipart/form-data":
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
    try:
        fields = form_fields(kind, octets)
    except FormError as error:
        raise bad_request(str(error)) from error
    if "file" not in fields:
        raise bad_request(_UNPARSABLE)
    return fields["file"], _redirect(fields.get("redirect", b""))


def _redirect(octets: bytes) -> str:
    """Return a place on this server, as the page's forms name it; empty for anything else."""
    text = octets.decode("ascii", "replace")
    is_ours = text.startswith(("../", "./", "#", "/")) and not text.startswith("//")
    is_plain = text.isascii() and text.isprintable() and "\\" not in text
    return text if is_ours and is_plain and len(text) <= _REDIRECT_CHARACTERS_MAX else ""


async def _hash_passwords(broker: BrokerClient, found: DefinitionsFile) -> None:
    """Replace the passwords of users by hashes, which the broker makes.

    Raises:
        ApiError: A user has both, or a password that is no text.
    """
    for user in found.sections.get("users", ()):
        if "password" not in user:
            continue
        password = user.pop("password")
        if user.get("password_hash"):
            raise bad_request("both_password_and_password_hash_are_provided")
        if not isinstance(password, str):
            raise bad_request(["not_a_string", password])
        if password:
            user |= await broker.call("passwords.hash", {"password": password})


def _parts_of(lines: Iterator[str]) -> Iterator[str]:
    """Yield lines in parts that fit in a request; one part at least."""
    held: list[str] = []
    size = 0
    for line in lines:
        for at in range(0, len(line), UPLOAD_CHARACTERS):
            part = line[at : at + UPLOAD_CHARACTERS]
            if size + len(part) > UPLOAD_CHARACTERS:
                yield "".join(held)
                held, size = [], 0
            held.append(part)
            size += len(part)
    yield "".join(held)


def _refusal(refused: BrokerRefused, vhost: str) -> Exception:
    mistakes = refused.details.get("mistakes")
    if mistakes:
        return bad_request("\n".join(map(str, mistakes)))
    if refused.kind == "failed" and vhost and "does not exist" in refused.reason:
        return vhost_not_found()
    return refused


def routes(parts: Parts) -> list[Route]:
    """Return the routes of definitions."""
    definitions = _Definitions(parts)
    admin = Tag.ADMINISTRATOR
    return [
        Route("GET", "/api/definitions", definitions.export, admin),
        Route("POST", "/api/definitions", definitions.take, admin),
        Route("GET", "/api/definitions/{vhost}", definitions.export, admin),
        Route("POST", "/api/definitions/{vhost}", definitions.take, admin, checks_vhost=True),
    ]
