"""What the tests need beyond Python: Java, RocketMQ's jars, Prometheus, etcd, Chromium.

Java (17 or newer), Prometheus, etcd and Chromium come from PATH. Where PATH lacks them, Debian's
packages are unpacked into `.cache/`. The jars are fetched by Maven, from wherever it is configured
to look: no repository is named here, and a mirror in the user's settings is honoured. A missing
Maven is unpacked like Java. Each jar is checked against `artifacts.lock`, by its hash when it is
new and by its size and time afterwards.

`python -m tests.compat.provision` does all of it ahead of the tests, which otherwise ask for each
thing when they first need it.
"""

import fcntl
import functools
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.compat import maven
from tests.compat.debian import AptFailed, can_unpack, unpack

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache"
JAVA_VERSION_MIN = 17
# The first that the release has: Debian 12 and Ubuntu have 17, Debian 13 has 21.
JAVA_PACKAGES = [[f"openjdk-{n}-jre-headless", f"openjdk-{n}-jdk-headless"] for n in (17, 21, 25)]
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_PACKAGES = [["chromium", "fonts-inter", "fonts-dejavu-core"]]

# For a JVM that lives some seconds: what the second compiler makes faster later costs now.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""Without performance data, which is a file in the temporary directory of the system."""


class ProvisionFailed(Exception):
    """Something the tests need is not here and cannot be fetched; the text says what to do."""


class JavaRuntime(NamedTuple):
    """A Java to run and to compile with."""

    java: str
    javac: str
    env: dict[str, str]
    """The whole environment for its processes."""


class PrometheusBinaries(NamedTuple):
    """The server and its checking tool."""

    prometheus: str
    promtool: str


class ChromiumProgram(NamedTuple):
    """A Chromium, the whole environment for its processes, and a folder of fonts for them.

    fonts: None where the system's own serve.
    """

    program: str
    env: dict[str, str]
    fonts: Path | None


@functools.cache
def java_runtime() -> JavaRuntime:
    """Return a Java 17 or newer, unpacking one if need be.

    Raises:
        ProvisionFailed: where there is none and none can be unpacked.
    """
    for folder in _java_folders():
        java, javac = folder / "java", folder / "javac"
        if java.is_file() and javac.is_file() and _java_version(java) >= JAVA_VERSION_MIN:
            return JavaRuntime(str(java), str(javac), dict(os.environ))
    tree = _unpacked("java", JAVA_PACKAGES, dependencies=True, lacking="Java 17 or newer, a JDK,")
    [home] = [path for path in tree.glob("usr/lib/jvm/java-*-openjdk-*") if not path.is_symlink()]
    libraries = [str(path) for path in tree.glob(f"usr/lib/{platform.machine()}-linux-*")]
    runtime = JavaRuntime(
        str(home / "bin" / "java"),
        str(home / "bin" / "javac"),
        {**os.environ, "JAVA_HOME": str(home), "LD_LIBRARY_PATH": ":".join(libraries)},
    )
    maven.write_trust_store(runtime.java, runtime.env, home / "lib" / "security" / "cacerts")
    return runtime


@functools.cache
def rocketmq_jars() -> tuple[Path, ...]:
    """Return the jars of `artifacts.lock`, fetched and checked.

    Raises:
        ProvisionFailed: where one cannot be fetched or is not the one that the list names.
    """
    return _jars("artifacts.lock", "RocketMQ 4.9.3")


@functools.cache
def opentelemetry_agent() -> Path:
    """Return the jar of `agent.lock`: OpenTelemetry's agent for Java, fetched and checked.

    Raises:
        ProvisionFailed: where it cannot be fetched or is not the one that the list names.
    """
    [jar] = _jars("agent.lock", "OpenTelemetry's agent")
    return jar


def _jars(list_name: str, what: str) -> tuple[Path, ...]:
    artifacts = maven.read_artifacts(ROOT / "tests" / "compat" / list_name)
    repository = CACHE / "maven"
    with turn("maven"):
        try:
            if not maven.verify(artifacts, repository):
                _say(f"fetching the jars of {what} with Maven")
                command, environment = maven_command()
                maven.fetch(command, environment, artifacts, repository)
        except maven.MavenFailed as failure:
            raise ProvisionFailed(str(failure)) from failure
    return tuple(artifact.path_in(repository) for artifact in artifacts)


def rocketmq_classpath() -> str:
    """Return the class path that RocketMQ's name server, broker, tools and client run on."""
    return os.pathsep.join(str(path) for path in rocketmq_jars())


@functools.cache
def prometheus_binaries() -> PrometheusBinaries:
    """Return Prometheus and promtool, unpacking them if need be.

    Raises:
        ProvisionFailed: where there are none and none can be unpacked.
    """
    found = [shutil.which(name) for name in PrometheusBinaries._fields]
    if not all(found):
        lacking = "Prometheus, with promtool,"
        tree = _unpacked("prometheus", [["prometheus"]], dependencies=False, lacking=lacking)
        found = [str(tree / "usr" / "bin" / name) for name in PrometheusBinaries._fields]
    return PrometheusBinaries(*map(str, found))


@functools.cache
def etcd_program() -> str:
    """Return etcd's server, 3.4 or newer, unpacking it if need be.

    Raises:
        ProvisionFailed: where there is none and none can be unpacked.
    """
    if found := shutil.which("etcd"):
        return found
    tree = _unpacked("etcd", [["etcd-server"]], dependencies=False, lacking="etcd")
    return str(tree / "usr" / "bin" / "etcd")


@functools.cache
def chromium_program() -> ChromiumProgram:
    """Return a Chromium or Chrome, unpacking one with fonts if need be.

    Raises:
        ProvisionFailed: where there is none and none can be unpacked.
    """
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name):
            return ChromiumProgram(found, dict(os.environ), None)
    tree = _unpacked("chromium", CHROMIUM_PACKAGES, dependencies=True, lacking="Chromium")
    program = tree / "usr" / "lib" / "chromium" / "chromium"
    folders = [program.parent]
    for each in sorted(tree.glob(f"usr/lib/{platform.machine()}-linux-*")):
        folders += [each, each / "pulseaudio", each / "blas", each / "lapack"]
    libraries = os.pathsep.join(str(each) for each in folders)
    env = {**os.environ, "LD_LIBRARY_PATH": libraries}
    return ChromiumProgram(str(program), env, tree / "usr" / "share" / "fonts")


@functools.cache
def container_tools() -> Path:
    """Return the folder with buildah, crun and debootstrap, unpacked if need be.

    Raises:
        ProvisionFailed: where they cannot be unpacked.
    """
    lacking = "A builder of images (buildah, crun, debootstrap)"
    packages = [["buildah", "crun", "debootstrap"]]
    return _unpacked("containers", packages, dependencies=True, lacking=lacking)


def _java_folders() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin"
    if javac := shutil.which("javac"):
        yield Path(javac).parent


def _java_version(java: Path) -> int:
    """Return the major version, 0 for what is no Java (macOS has a program that only says so)."""
    outcome = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(\d+)', outcome.stderr)
    return int(match[1]) if match and outcome.returncode == 0 else 0


def maven_command() -> tuple[list[str], dict[str, str]]:
    """Return Maven's command and its environment."""
    runtime = java_runtime()
    found = shutil.which("mvn")
    if not found:
        tree = _unpacked("maven-tool", [["maven"]], dependencies=True, lacking="Maven (mvn)")
        found = str(tree / "usr" / "share" / "maven" / "bin" / "mvn")
    home = Path(runtime.java).resolve().parent.parent
    return [found], {**runtime.env, "JAVA_HOME": str(home)}


def _unpacked(
    name: str, choices: Sequence[Sequence[str]], *, dependencies: bool, lacking: str
) -> Path:
    """Return the folder that holds the packages, making it the first time."""
    tree = CACHE / "debian" / name
    with turn(name):
        if tree.exists():
            return tree
        advice = "put it on PATH, or leave out the tests that need it (./dev test --without KIND)"
        if not can_unpack():
            raise ProvisionFailed(f"{lacking} is not here, nor is Debian's apt-get: {advice}")
        _say(f"{lacking} is not on PATH: unpacking Debian's packages into .cache")
        try:
            unpack(choices, tree, dependencies=dependencies)
        except AptFailed as failure:
            raise ProvisionFailed(f"{lacking} cannot be unpacked: {advice}\n{failure}") from failure
    return tree


@contextmanager
def turn(name: str) -> Iterator[None]:
    """Let one process at a time fetch a thing."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(f"provision: {line}", file=sys.stderr, flush=True)


def main(kinds: Sequence[str]) -> int:
    """Fetch what the kinds of test need every day, all of them without an argument."""
    try:
        if not kinds or "java" in kinds:
            java_runtime()
            rocketmq_jars()
        if "spark" in kinds:
            java_runtime()
        if not kinds or "prometheus" in kinds:
            prometheus_binaries()
        if not kinds or "etcd" in kinds:
            etcd_program()
        if not kinds or "browser" in kinds:
            chromium_program()
    except ProvisionFailed as failure:
        _say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
