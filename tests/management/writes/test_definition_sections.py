"""The management server and the broker agree on definitions files, which each reads by itself."""

from amqp_server.definitions_file import file_content
from amqp_server.management.resources import definitions_file


def test_both_import_the_same_sections_in_the_same_order() -> None:
    assert definitions_file.SECTIONS == file_content.SECTIONS
