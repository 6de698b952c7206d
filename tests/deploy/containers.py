"""The image of `deploy/Dockerfile` and containers of it, without Docker: root is needed.

Debian's buildah builds it, and crun runs containers as Docker would: a read-only root, no
capability, and namespaces of their own. All of them are unpacked into `.cache/`. No registry is
asked: debootstrap makes the base image, a Debian 12 with its own Python 3.11.

Each command runs in a mount namespace of its own. The loader knows the unpacked libraries there,
for buildah starts itself again with an empty environment.
"""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.compat.processes import TestProcess
from tests.compat.provision import CACHE, ROOT, container_tools, turn

BASE_IMAGE: Final = "docker.io/library/python:3.11-slim-bookworm"
IMAGE: Final = "localhost/wakelog"
USER_ID: Final = 10001
DEPLOY: Final = ROOT / "deploy"
CERTIFICATES: Final = "etc/ssl/certs/ca-certificates.crt"
STOP_SECONDS_MAX: Final = 100.0

NAMESPACE: Final = """
tree=$1 cache=$2; shift 2
mount --bind $cache /etc/ld.so.cache
! mountpoint -q /sys/fs/cgroup/unified || umount -l /sys/fs/cgroup/unified
PATH=$tree/usr/bin:$tree/usr/sbin:$PATH BUILDAH_ISOLATION=chroot
export PATH BUILDAH_ISOLATION
exec "$@"
"""
"""crun takes no machine that has both kinds of cgroups: here the newer one is out of sight."""

DEVICES: Final = {
    "/proc": ("proc", []),
    "/dev": ("tmpfs", ["nosuid", "mode=755", "size=65536k"]),
    "/dev/shm": ("tmpfs", ["nosuid", "noexec", "nodev", "mode=1777", "size=268435456"]),
    "/tmp": ("tmpfs", ["mode=1777"]),
}
"""What is written beside the store, as `docker run --read-only --tmpfs /tmp --shm-size 256m`."""


class Containers:
    """An image and what runs of it. folder: for all files."""

    def __init__(self, folder: Path) -> None:
        """Build nothing yet."""
        self._folder, self._tree = folder, container_tools()
        self._names: list[str] = []
        self._cache_libraries()
        self.config: dict[str, Any] = {}

    def build(self) -> None:
        """Make the base image, and of it what the Dockerfile says."""
        policy = self._folder / "policy.json"
        policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
        accept = ("--signature-policy", str(policy))
        base = self._buildah("from", "scratch")
        self._buildah("add", "--quiet", base, str(self._base_root()), "/")
        self._buildah("commit", *accept, "--quiet", base, BASE_IMAGE)
        self._buildah(
            *("build", *accept, "--format", "docker", "--pull-never", "--network", "host"),
            *("--file", str(DEPLOY / "Dockerfile")),
            *("--ignorefile", str(DEPLOY / "Dockerfile.dockerignore"), "--tag", IMAGE, str(ROOT)),
        )
        said = json.loads(self._buildah("inspect", "--type", "image", IMAGE))
        self.config = said["Docker"]["config"]

    def root(self, *, packages: Sequence[str] = ()) -> Path:
        """Return the root of a container of the image, into which packages are installed."""
        policy = ("--signature-policy", str(self._folder / "policy.json"))
        name = self._buildah("from", *policy, "--pull-never", IMAGE)
        if packages:
            install = f"apt-get update && apt-get install -y --no-install-recommends {packages[0]}"
            options = ("--user", "root", "--network", "host")
            self._buildah("run", *options, name, "--", "sh", "-c", install)
        return Path(self._buildah("mount", name))

    def run(self, name: str, spec: Mapping[str, Any], prefix: Sequence[str] = ()) -> TestProcess:
        """Start a container; the process ends with it. prefix: a command that runs crun."""
        bundle = self._folder / name
        bundle.mkdir()
        (bundle / "config.json").write_text(json.dumps(spec))
        self._names.append(name)
        words = [*prefix, *self._crun_words(), "run", "--bundle", str(bundle), name]
        return TestProcess(
            self._inside(words), env=dict(os.environ), log_path=self._folder / f"{name}.out"
        )

    def ask(
        self, name: str, words: Sequence[str], user: int = USER_ID
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a container."""
        crun = [*self._crun_words(), "exec", "--user", f"{user}:{user}", name, *words]
        return subprocess.run(self._inside(crun), capture_output=True, text=True, check=False)

    def signal(self, name: str, by: str) -> None:
        """Send a signal to the first process of a container."""
        words = self._inside([*self._crun_words(), "kill", name, by])
        subprocess.run(words, check=True, capture_output=True)

    def log(self, name: str) -> str:
        """Return what a container has said."""
        return (self._folder / f"{name}.out").read_text()

    def close(self) -> None:
        """End all containers."""
        for name in self._names:
            words = self._inside([*self._crun_words(), "delete", "--force", name])
            subprocess.run(words, check=False, capture_output=True)

    def _cache_libraries(self) -> None:
        """Write what the loader reads in the namespaces."""
        folders = self._folder / "ld.so.conf"
        own = Path("/etc/ld.so.conf").read_text()
        folders.write_text(f"{own}\n{self._tree}/usr/lib/{platform.machine()}-linux-gnu\n")
        words = ["/sbin/ldconfig", "-X", "-f", str(folders), "-C", self._library_cache]
        subprocess.run(words, check=True, capture_output=True)

    @property
    def _library_cache(self) -> str:
        return str(self._folder / "ld.so.cache")

    def _base_root(self) -> Path:
        root = CACHE / "debian" / "python-base"
        with turn("python-base"):
            if root.exists():
                return root
            scratch = Path(f"{root}.new")
            shutil.rmtree(scratch, ignore_errors=True)
            include = "--include=python3-venv,python-is-python3,ca-certificates"
            words = ["debootstrap", "--variant=minbase", include, "bookworm", str(scratch)]
            scripts = {"DEBOOTSTRAP_DIR": str(self._tree / "usr" / "share" / "debootstrap")}
            self._do(words, {**os.environ, **scripts})
            # Those of this machine: what it trusts, a build here has to trust.
            (scratch / CERTIFICATES).write_bytes(Path("/", CERTIFICATES).read_bytes())
            pip = f"[global]\ncert = /{CERTIFICATES}\n"
            (scratch / "etc" / "pip.conf").write_text(pip)
            scratch.rename(root)
        return root

    def _buildah(self, command: str, *words: str) -> str:
        places = ("--root", self._folder / "storage", "--runroot", self._folder / "run")
        options = [*map(str, places), "--storage-driver", "vfs"]
        return self._do(["buildah", *options, command, *words])

    def _crun_words(self) -> list[str]:
        return ["crun", "--root", str(self._folder / "crun"), "--cgroup-manager=disabled"]

    def _inside(self, words: Sequence[str]) -> list[str]:
        script = ["sh", "-ec", NAMESPACE, "sh", str(self._tree), self._library_cache]
        return ["unshare", "--mount", *script, *words]

    def _do(self, words: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            self._inside(words), env=env, capture_output=True, text=True, check=False
        )
        last = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        assert done.returncode == 0, f"{' '.join(words[:8])} ended with {done.returncode}:\n{last}"
        return done.stdout.strip()


def spec_of(
    root: Path,
    *,
    arguments: Sequence[str],
    env: Sequence[str],
    mounts: Mapping[str, tuple[str, str, list[str]]],
    user: int = USER_ID,
    capabilities: Sequence[str] = (),
    is_read_only: bool = True,
) -> dict[str, Any]:
    """Return what an OCI runtime reads. mounts: (type, source, options) by destination."""
    own = {place: (kind, kind, options) for place, (kind, options) in DEVICES.items()}
    sets = ("bounding", "effective", "permitted")
    return {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": user, "gid": user},
            "args": [*arguments],
            "env": [*env],
            "cwd": "/store" if user else "/",
            "capabilities": {name: [*capabilities] for name in sets},
            "noNewPrivileges": not capabilities,
        },
        "root": {"path": str(root), "readonly": is_read_only},
        "hostname": "wakelog",
        "mounts": [
            {"destination": place, "type": kind, "source": source, "options": options}
            for place, (kind, source, options) in {**own, **mounts}.items()
        ],
        "linux": {
            "namespaces": [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount")]
        },
    }
