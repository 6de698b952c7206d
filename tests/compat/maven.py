"""The jars that `artifacts.lock` and `agent.lock` list, fetched by Maven and checked by us.

Maven gets a project that names each artifact without its dependencies, so that it fetches just what
is listed. Its local repository is in the project's cache, so that the user's own is left alone.
"""

import hashlib
import json
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

# Maven's own core cannot resolve a list of artifacts; this plug-in does, and its version is pinned.
RESOLVE_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:resolve"
FETCH_SECONDS_MAX = 900
STAMPS_NAME = "wakelog-verified.json"

_PROJECT = (
    """<project xmlns="http:"""
    """//maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>wakelog</groupId><artifactId>compat</artifactId>
<version>1</version><packaging>pom</packaging>
<dependencies>
%s
</dependencies>
</project>
"""
)
_DEPENDENCY = (
    "<dependency><groupId>{0.group}</groupId><artifactId>{0.name}</artifactId>"
    "<version>{0.version}</version><exclusions><exclusion><groupId>*</groupId>"
    "<artifactId>*</artifactId></exclusion></exclusions></dependency>"
)
# Java keeps its trusted certificates in a format of its own, which Debian writes at installation.
_TRUST_STORE_PROGRAM = """
import java.io.*;
import java.security.KeyStore;
import java.security.cert.*;

public class TrustStore {
    public static void main(String[] names) throws Exception {
        KeyStore store = KeyStore.getInstance("JKS");
        store.load(null, null);
        try (InputStream in = new BufferedInputStream(new FileInputStream(names[0]))) {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            for (Certificate each : factory.generateCertificates(in)) {
                store.setCertificateEntry("c" + store.size(), each);
            }
        }
        try (OutputStream out = new FileOutputStream(names[1])) {
            store.store(out, "changeit".toCharArray());
        }
    }
}
"""


class MavenFailed(Exception):
    """Maven could not fetch the jars, or fetched others; the text says which."""


class Artifact(NamedTuple):
    """One line of the list."""

    group: str
    name: str
    version: str
    sha256: str

    def path_in(self, repository: Path) -> Path:
        """Return the jar's place in a repository of Maven's layout."""
        file_name = f"{self.name}-{self.version}.jar"
        return repository.joinpath(*self.group.split("."), self.name, self.version, file_name)


def read_artifacts(path: Path) -> list[Artifact]:
    """Read the list: a line is `group:name:version sha256`."""
    artifacts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, name, version = coordinates.split(":")
            artifacts.append(Artifact(group, name, version, sha256))
    return artifacts


def verify(artifacts: Sequence[Artifact], repository: Path) -> bool:
    """Tell whether every jar is there; hash those that are new or were touched.

    Raises:
        MavenFailed: if a jar is not the one in the list; it is removed first.
    """
    stamps_path = repository / STAMPS_NAME
    known = json.loads(stamps_path.read_text()) if stamps_path.exists() else {}
    stamps = dict(known)
    for artifact in artifacts:
        path = artifact.path_in(repository)
        if not path.is_file():
            return False
        status = path.stat()
        stamp = [artifact.sha256, status.st_size, status.st_mtime_ns]
        if known.get(str(path)) != stamp:
            _check_hash(artifact, path)
        stamps[str(path)] = stamp
    if stamps != known:
        stamps_path.write_text(json.dumps(stamps, indent=1))
    return True


def fetch(
    command: Sequence[str], env: dict[str, str], artifacts: Sequence[Artifact], repository: Path
) -> None:
    """Have Maven bring every artifact into the repository, and check them.

    Raises:
        MavenFailed: with what Maven said, or with the jar that is not the listed one.
    """
    dependencies = "\n".join(_DEPENDENCY.format(artifact) for artifact in artifacts)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "pom.xml")
        project.write_text(_PROJECT % dependencies, encoding="utf-8")
        options = ("-B", "-q", "-f", str(project), f"-Dmaven.repo.local={repository}")
        outcome = subprocess.run(
            [*command, *options, RESOLVE_GOAL],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            check=False,
        )
    if outcome.returncode or not verify(artifacts, repository):
        last = "\n".join(outcome.stdout.splitlines()[-15:])
        raise MavenFailed(f"Maven could not fetch the jars:\n{last}")


def write_trust_store(java: str, env: dict[str, str], store: Path) -> None:
    """Write the certificates that this system trusts where an unpacked Java looks for them."""
    target = store.resolve()
    if target.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "TrustStore.java")
        source.write_text(_TRUST_STORE_PROGRAM, encoding="utf-8")
        program = [java, str(source), str(_certificates()), str(target)]
        subprocess.run(program, env=env, check=True, capture_output=True)


def _certificates() -> Path:
    """Return the file of certificates that Python trusts; the system's, else the one it brought."""
    paths = ssl.get_default_verify_paths()
    for name in (paths.cafile, paths.openssl_cafile, "/etc/ssl/certs/ca-certificates.crt"):
        if name and Path(name).is_file():
            return Path(name)
    import certifi  # comes with the lock; the last resort on a system without certificates

    return Path(certifi.where())


def _check_hash(artifact: Artifact, path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != artifact.sha256:
        path.unlink()
        raise MavenFailed(
            f"{path.name} has SHA-256 {found}, the list says {artifact.sha256};"
            " it was removed, the next run fetches it again"
        )
