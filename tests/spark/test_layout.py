"""Names in an output."""

from pathlib import Path

import pytest

from appendlog.spark.exporting.layout import folder_name


@pytest.mark.parametrize(
    ("queue", "folder"),
    [
        ("flights", "queue=flights"),
        ("Flights.2013", "queue=Flights.2013"),
        ("a/b=c%d", "queue=a%2Fb%3Dc%25d"),
        ("../x", "queue=..%2Fx"),
        ("\u00e9t\u00e9", "queue=\u00e9t\u00e9"),
        ("", "queue=__HIVE_DEFAULT_PARTITION__"),
        ("\udcff", "queue=%FF"),
        ("\\xff", "queue=%5Cxff"),
    ],
)
def test_folders_are_escaped_as_spark_does(queue: str, folder: str) -> None:
    assert folder_name(queue) == folder


def test_a_long_name_still_makes_a_folder(tmp_path: Path) -> None:
    names = ["/" * 254 + end for end in "ab"]
    folders = {folder_name(name) for name in names}
    assert len(folders) == 2
    for folder in folders:
        (tmp_path / folder).mkdir()
