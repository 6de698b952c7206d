"""The version of a build. It comes from a tag, or counts commits. An archive has none of both."""

import subprocess
from pathlib import Path

import pytest

from scripts.version import FIRST, version_from, version_of

MEMBER = ("-c", "user.name=tester", "-c", "user.email=tester@localhost", "-c", "tag.gpgsign=false")


@pytest.mark.parametrize(
    ("described", "version"),
    [
        ("v0.2.0-0-g1a2b3c4", "0.2.0"),
        ("v0.2.0-0-g1a2b3c4-dirty", "0.2.1.dev0+g1a2b3c4.dirty"),
        ("v0.2.9-13-g1a2b3c4", "0.2.10.dev13+g1a2b3c4"),
        ("v0.2.9-13-g1a2b3c4-dirty", "0.2.10.dev13+g1a2b3c4.dirty"),
        ("1a2b3c4", f"{FIRST}.dev57+g1a2b3c4"),
        ("1a2b3c4-dirty", f"{FIRST}.dev57+g1a2b3c4.dirty"),
    ],
)
def test_the_version_follows_from_the_last_tag(described: str, version: str) -> None:
    assert version_from(described, 57) == version


@pytest.mark.parametrize("described", ["v2024-3-g1a2b3c4", "v1.0.0rc1-0-g1a2b3c4", "v1.2-0-gab"])
def test_a_tag_that_is_no_version_ends_the_build(described: str) -> None:
    with pytest.raises(ValueError, match=r"form v1\.2\.3"):
        version_from(described, 57)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *MEMBER, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "--no-gpg-sign", "-m", text)
    return git(folder, "rev-parse", "--short", "HEAD")


@pytest.mark.process
def test_a_checkout_has_a_version_before_at_and_after_its_first_tag(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    first = commit(tmp_path, "one")
    assert version_of(tmp_path) == f"{FIRST}.dev1+g{first}"
    git(tmp_path, "tag", "v1.4.2")
    assert version_of(tmp_path) == "1.4.2"
    second = commit(tmp_path, "two")
    assert version_of(tmp_path) == f"1.4.3.dev1+g{second}"
    (tmp_path / "file").write_text("three")
    assert version_of(tmp_path) == f"1.4.3.dev1+g{second}.dirty"


@pytest.mark.process
def test_an_archive_has_a_version_of_no_repository_around_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "one")
    git(tmp_path, "tag", "v1.4.2")
    archive = tmp_path / "archive"
    archive.mkdir()
    assert version_of(archive) == f"{FIRST}.dev0"
