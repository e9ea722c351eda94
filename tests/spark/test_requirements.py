"""What is installed for Spark is what Spark wants for what we do with it."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_the_extra_brings_what_spark_wants_for_arrow() -> None:
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    ours = {re.split(r"[<>=]", each)[0]: each for each in extras["spark"]}
    wanted = [each for each in requires("pyspark") or () if each.endswith('extra == "sql"')]
    assert {re.split(r"[<>=]", each)[0] for each in wanted} <= set(ours)
    # It warns in every job that pandas 3 is new to it.
    assert ours["pandas"].endswith(",<3")
