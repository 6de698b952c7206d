"""What provisioning decides: bent links, checked jars, a Java that is new enough."""

import hashlib
import os
import platform
from pathlib import Path

import pytest

from tests.compat import provision
from tests.compat.debian import bend_links
from tests.compat.maven import Artifact, MavenFailed, read_artifacts, verify
from tests.compat.provision import ROOT, ProvisionFailed


@pytest.mark.parametrize(
    ("target", "bent"),
    [
        ("/etc/app/real.conf", "../../etc/app/real.conf"),  # in the tree, meant as the system's
        ("../../etc/app/real.conf", "../../etc/app/real.conf"),  # led there already
        ("/etc/passwd", "/etc/passwd"),  # not in the tree, but on this system
        ("../../etc/passwd", "/etc/passwd"),  # what a relative link means once it is installed
        ("/nowhere/at/all", "../../nowhere/at/all"),  # may be put into the tree later
    ],
)
def test_a_link_is_bent_to_where_its_target_is(tmp_path: Path, target: str, bent: str) -> None:
    tree = tmp_path / "tree"
    (tree / "etc" / "app").mkdir(parents=True)
    (tree / "etc" / "app" / "real.conf").touch()
    link = tree / "usr" / "lib" / "app.conf"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    bend_links(tree)
    assert os.readlink(link) == bent


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    """Put one jar into a repository, and describe it."""
    made = Artifact("org.example", "thing", "1.0", hashlib.sha256(b"jar").hexdigest())
    path = made.path_in(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"jar")
    assert path == tmp_path / "org/example/thing/1.0/thing-1.0.jar"
    return made


def test_a_jar_is_hashed_once_and_again_when_it_changed(
    tmp_path: Path, artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Artifact] = []
    monkeypatch.setattr("tests.compat.maven._check_hash", lambda one, path: hashed.append(one))
    assert verify([artifact], tmp_path)
    assert verify([artifact], tmp_path)
    assert len(hashed) == 1
    os.utime(artifact.path_in(tmp_path), (1, 1))
    assert verify([artifact], tmp_path)
    assert len(hashed) == 2


def test_a_jar_that_is_not_the_listed_one_is_refused_and_removed(
    tmp_path: Path, artifact: Artifact
) -> None:
    artifact.path_in(tmp_path).write_bytes(b"another")
    with pytest.raises(MavenFailed, match=r"thing-1\.0\.jar has SHA-256"):
        verify([artifact], tmp_path)
    assert not verify([artifact], tmp_path)  # so that it is fetched again


def test_the_list_holds_rocketmq_and_a_hash_for_each() -> None:
    artifacts = read_artifacts(ROOT / "tests" / "compat" / "artifacts.lock")
    rocketmq = {x.name for x in artifacts if x.group == "org.apache.rocketmq"}
    assert {f"rocketmq-{x}" for x in ("client", "namesrv", "broker", "tools")} <= rocketmq
    assert {x.version for x in artifacts if x.name in rocketmq} == {"4.9.3"}
    assert all(len(bytes.fromhex(x.sha256)) == 32 for x in artifacts)


@pytest.mark.process
@pytest.mark.parametrize(
    ("says", "code", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, 17),
        ('java version "1.8.0_402"', 0, 1),
        ("", 1, 0),
    ],
)
def test_the_version_of_a_java_is_read(tmp_path: Path, says: str, code: int, version: int) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    assert provision._java_version(java) == version


def test_without_java_and_without_debian_the_message_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(provision, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ProvisionFailed, match=r"Java 17 or newer.*PATH.*--without"):
        provision.java_runtime.__wrapped__()


def test_a_chromium_on_the_path_is_taken_with_the_fonts_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "google-chrome"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = provision.chromium_program.__wrapped__()
    assert (found.program, found.fonts) == (str(program), None)
    assert found.env["PATH"] == str(tmp_path)


def test_an_unpacked_chromium_finds_its_libraries_and_fonts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree = tmp_path / "debian" / "chromium"
    libraries = tree / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    (libraries / "blas").mkdir(parents=True)
    monkeypatch.setattr(provision, "CACHE", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = provision.chromium_program.__wrapped__()
    assert found.program == str(tree / "usr" / "lib" / "chromium" / "chromium")
    assert {str(libraries), str(libraries / "blas")} <= {*found.env["LD_LIBRARY_PATH"].split(":")}
    assert found.fonts == tree / "usr" / "share" / "fonts"
