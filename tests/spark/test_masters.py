"""Which masters Spark can run on, and how it is set up for each."""

import os
import socket
import sys
from pathlib import Path

import pytest
from pyspark import SparkContext

from appendlog.spark.errors import MasterError, SparkConfError
from appendlog.spark.running.configuration import (
    configuration,
    needs_package,
    parse_spark_conf,
    prepare_environment,
)
from appendlog.spark.running.masters import check_master, own_address


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[4]", "local[2,2]", "local[*, 3]", "yarn", "k8s://https://h"],
)
def test_what_spark_knows_is_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "locl", "local[x]", "http://h:1", "mesos://h", "spark://"])
def test_what_spark_does_not_know_is_refused(master: str) -> None:
    with pytest.raises(MasterError):
        check_master(master)


def test_spark_connect_is_refused_by_name() -> None:
    with pytest.raises(MasterError, match="Spark Connect"):
        check_master("sc://h:15002")


def test_a_standalone_master_that_is_not_there_is_refused_at_once() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        master = f"spark://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(MasterError, match=r"no master of Spark answers there: .*refused"):
            check_master(master)
    with pytest.raises(MasterError, match="no master of Spark answers"):
        check_master("spark://127.0.0.1:port")


def test_executors_are_told_the_address_that_leads_to_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    # A Spark that another test has started would lend its settings as defaults.
    monkeypatch.setattr(SparkContext, "_jvm", None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        # The first of two is gone: the second answers.
        master = f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}"
        check_master(master)
        assert own_address(master) == "127.0.0.1"
        assert configuration(master, {}).get("spark.driver.host") == "127.0.0.1"
        monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
        assert configuration(master, {}).get("spark.driver.host") is None


def test_settings_of_the_user_win() -> None:
    settings = parse_spark_conf(["spark.ui.enabled=true", "spark.x=a=b", "spark.empty="])
    assert settings == {"spark.ui.enabled": "true", "spark.x": "a=b", "spark.empty": ""}
    assert configuration("local[2]", settings).get("spark.ui.enabled") == "true"
    assert configuration("yarn", settings).get("spark.x") == "a=b"


@pytest.mark.parametrize("text", ["spark.x", "x=1", "=1", "spark.master=local"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(SparkConfError):
        parse_spark_conf([text])


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://h"])
def test_workers_never_import_from_their_current_directory(master: str) -> None:
    assert configuration(master, {}).get("spark.executorEnv.PYTHONSAFEPATH") == "1"


def test_a_cluster_gets_our_code_unless_it_has_other_code() -> None:
    assert not needs_package("local[*]", {})
    assert needs_package("yarn", {})
    assert needs_package("spark://h:7077", {"spark.executor.memory": "1g"})
    assert not needs_package("yarn", {"spark.submit.pyFiles": ""})
    assert not needs_package("yarn", {"spark.archives": "env.tar.gz#env"})


def test_the_python_of_workers_is_this_one_or_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "./env/bin/python")
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.7")
    prepare_environment("yarn")
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"
    assert os.environ["SPARK_LOCAL_IP"] == "10.0.0.7"
    prepare_environment("local[2]")
    assert Path(os.environ["PYSPARK_PYTHON"]) == Path(sys.executable)
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
