"""Which of flag, setting and file holds, and what is refused to be read."""

from pathlib import Path

import pytest

from wakelog.actors.deploy.layers import CONFIG_BYTES_MAX, Layers, read_layers
from wakelog.actors.errors import NotPossible


def read(
    *settings: str, config: Path | None = None, store: str | None = None, port: str | None = None
) -> Layers:
    flags = {"--store": ("storePathRootDir", store), "--broker-port": ("listenPort", port)}
    return read_layers(None if config is None else str(config), settings, flags)


def conf(directory: Path, text: str | bytes) -> Path:
    path = directory / "broker.conf"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_flag_beats_a_setting_which_beats_the_file(tmp_path: Path) -> None:
    path = conf(tmp_path, "listenPort=1\nbrokerName = file\nregionId=file\n")
    layers = read("brokerName=set", config=path, port="3")
    assert layers.merged() == {"listenPort": "3", "brokerName": "set", "regionId": "file"}
    assert [key for layer in layers for key in layer] == [
        *("listenPort", "brokerName"),
        *("listenPort", "brokerName", "regionId"),
    ]


def test_a_setting_keeps_the_equals_signs_of_its_value_and_the_last_one_holds() -> None:
    assert read("a=1", "a = b=c ").merged() == {"a": "b=c"}


def test_relative_paths_start_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    layers = read("storePathCommitLog=log, ~/log", store="data/../store")
    assert layers.merged().get("storePathRootDir") == str(tmp_path / "store")
    assert layers.merged().get("storePathCommitLog") == f"{tmp_path}/log,/home/me/log"


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "latin-1"])
def test_a_comment_in_any_encoding_is_accepted(tmp_path: Path, encoding: str) -> None:
    comment = "# Gr\u00fc\u00dfe" if encoding == "latin-1" else "# \u4e2d\u6587"
    path = conf(tmp_path, f"{comment}\nbrokerName=x\n".encode(encoding))
    assert read(config=path).file.get("brokerName") == "x"


@pytest.mark.parametrize(
    ("settings", "store", "cause"),
    [
        (["brokerName"], None, "--set brokerName has no value"),
        (["=x"], None, "--set =x has no value"),
        (
            ["storePathRootDir=/b"],
            "/a",
            "--store /a and --set storePathRootDir=/b say the same thing twice",
        ),
    ],
)
def test_settings_without_a_value_or_given_twice_are_refused(
    settings: list[str], store: str | None, cause: str
) -> None:
    with pytest.raises(NotPossible) as refused:
        read(*settings, store=store)
    assert refused.value.cause == cause


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (None, "cannot be read: No such file or directory"),
        ("a directory", "cannot be read: Is a directory"),
        (b"a=1\0", "is not a text of settings"),
        (b"#" * (CONFIG_BYTES_MAX + 1), "is not a text of settings"),
    ],
)
def test_a_file_that_is_no_broker_conf_is_refused(
    tmp_path: Path, content: bytes | str | None, cause: str
) -> None:
    path = tmp_path / "broker.conf"
    if content == "a directory":
        path.mkdir()
    elif content is not None:
        conf(tmp_path, content)
    with pytest.raises(NotPossible) as refused:
        read(config=path)
    assert refused.value.cause == f"--config {path} {cause}"
