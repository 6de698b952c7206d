"""Opening a session, and the errors without Java or PySpark."""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from wakelog.spark import session
from wakelog.spark.session import (
    LOCAL_SOCKETS,
    SparkMissing,
    SparkRefused,
    check_java,
    is_submitted,
    job_session,
    open_session,
)


def make_java(folder: Path, said: str) -> Path:
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.process
def test_a_java_that_is_new_enough(tmp_path: Path) -> None:
    folder = make_java(tmp_path / "bin", 'openjdk version "21.0.1" 2023-10-17')
    check_java({"PATH": str(folder)})
    check_java({"PATH": "", "JAVA_HOME": str(tmp_path)})


@pytest.mark.process
@pytest.mark.parametrize("said", ['java version "1.8.0_202"', 'openjdk version "11.0.2"', "none"])
def test_an_old_java_is_named(said: str, tmp_path: Path) -> None:
    folder = make_java(tmp_path / "bin", said)
    with pytest.raises(SparkMissing, match="17 or newer.*" + said.split('"')[0]):
        check_java({"PATH": str(folder)})


def test_the_error_without_java_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SparkMissing, match="put one on PATH or name it in JAVA_HOME; there is no"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(SparkMissing, match=f"there is none at {tmp_path}"):
        check_java({"PATH": "", "JAVA_HOME": str(tmp_path)})


def test_spark_submit_is_known_by_its_java() -> None:
    assert is_submitted({"PYSPARK_GATEWAY_PORT": "40000"}) and not is_submitted({"PATH": ""})


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_leaves_a_session_that_was_there(spark: SparkSession) -> None:
    with job_session() as session:
        assert session is spark
    assert spark.range(2).count() == 2
    assert spark.conf.get(LOCAL_SOCKETS) == "true"


@pytest.mark.parametrize(
    ("ends_with", "done"),
    [
        (None, ["stopped"]),
        (ValueError(), ["stopped"]),
        (KeyboardInterrupt(), ["Java is left alone", "Java has ended"]),
    ],
)
def test_an_interrupted_job_asks_java_nothing(
    ends_with: BaseException | None, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    java = SimpleNamespace(
        stdin=SimpleNamespace(close=lambda: seen.append("Java is left alone")),
        wait=lambda seconds: seen.append("Java has ended"),
    )
    made = SimpleNamespace(stop=lambda: seen.append("stopped"))
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java))
    monkeypatch.setattr(session, "_active_session", lambda: None)
    monkeypatch.setattr(session, "open_session", lambda *asked: made)
    with pytest.raises(type(ends_with)) if ends_with else nullcontext(), job_session("local"):
        if ends_with is not None:
            raise ends_with
    assert seen == done


def test_the_error_without_pyspark_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SparkMissing, match=r"with its extra spark"):
        open_session()


def test_settings_that_spark_refuses_are_no_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(builder: object) -> None:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.\nat some place")

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    monkeypatch.setattr("wakelog.spark.session.check_java", lambda environment: None)
    words = r"did not start: \[JAVA_GATEWAY_EXITED\] Java gateway process exited\.; check its"
    with pytest.raises(SparkRefused, match=words):
        open_session("nonsense")
