"""Start-up: recovers parameters and the descriptions of virtual hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.broker.definition_values import InvalidDefinitionError, value_of
from amqp_server.broker.parameters import (
    GLOBAL_PARAMETERS,
    PARAMETERS,
    VHOST_METADATA,
    ParameterOwner,
    parameter_document,
)
from amqp_server.recovery.malformed_definitions import malformed_definition

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.recovery.start_report import MalformedDefinition
    from metadata.document import Document
    from metadata.loading import LoadReport


def recover_parameters(
    broker: Broker, report: LoadReport, malformed: list[MalformedDefinition]
) -> None:
    """Give the broker the values that its data directory contains.

    Args:
        broker: Broker with its virtual hosts.
        report: The metadata documents.
        malformed: Gets the documents with invalid values, which are left out.
    """
    for document in report.documents:
        try:
            _recover(broker, document)
        except InvalidDefinitionError as error:
            malformed.append(malformed_definition(broker.config.storage_path, document, error))


def _recover(broker: Broker, document: Document) -> None:
    vhost = broker.vhosts.get(document.vhost)
    if document.kind == GLOBAL_PARAMETERS:
        broker.global_parameters[document.name] = _value(document)
    elif vhost is None:
        return
    elif document.kind == PARAMETERS:
        component = value_of(document.body, "component", str)
        name = value_of(document.body, "name", str)
        value = _value(document)
        if parameter_document(vhost.name, component, name, value).name != document.name:
            raise InvalidDefinitionError("the document's name does not match the parameter in it")
        vhost.parameters[component, name] = value
        vhost.set_parameter_owner((component, name), _owner(document))
    elif document.kind == VHOST_METADATA:
        vhost.metadata = value_of(document.body, "metadata", dict)


def _owner(document: Document) -> ParameterOwner | None:
    if "owner" not in document.body:
        return None
    fields = value_of(document.body, "owner", dict)
    return ParameterOwner(value_of(fields, "user", str), value_of(fields, "backend", str))


def _value(document: Document) -> Any:  # noqa: ANN401 - any JSON value
    if "value" not in document.body:
        raise InvalidDefinitionError("'value' is missing")
    return document.body["value"]
