"""The image is built as its Dockerfile says, and started by each command line that has it.

The unit runs under a systemd that is the first process of a container, with the same program.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.compat.processes import POLL_SECONDS, TestProcess
from tests.deploy.containers import DEPLOY, STOP_SECONDS_MAX, USER_ID, Containers, spec_of
from tests.deploy.test_manifests import command_lines, filled_in
from wakelog.cli.program import MISUSED
from wakelog.telemetry.exposition import READY_PATH

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1500)]

READY_SECONDS_MAX: Final = 60.0
ALONE: Final = {
    "wakelog.register=kubernetes://default/wakelog": "wakelog.register=file:///store/register",
    "minInSyncReplicas=2": "minInSyncReplicas=1",
}
"""What the chart's broker cannot have without a cluster: its Lease, and other replicas."""

CGROUPS: Final = Path("/sys/fs/cgroup/systemd")
UNIT_CAPABILITIES: Final = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD"),
    *("CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT"),
)
CONFIGURED: Final = re.compile(r"^install -D .*/etc/wakelog/broker.conf$", re.MULTILINE)


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    """Yield the image, built."""
    found = Containers(tmp_path_factory.mktemp("containers"))
    found.build()
    yield found
    found.close()


@pytest.fixture(scope="module")
def root(containers: Containers) -> Path:
    """Return the root of the image, which no container may write."""
    return containers.root()


def wait_answer(
    containers: Containers,
    process: TestProcess,
    name: str,
    words: list[str],
    *,
    what: str,
    user: int = USER_ID,
) -> None:
    process.wait_until(
        lambda: containers.ask(name, words, user).returncode == 0,
        seconds_max=READY_SECONDS_MAX,
        what=what,
    )


@pytest.mark.parametrize(
    "place", ["Dockerfile", "compose broker", "chart broker", "chart nameserver"]
)
def test_a_broker_starts_takes_a_message_and_stops_in_order(
    containers: Containers, root: Path, tmp_path: Path, place: str
) -> None:
    config, store = containers.config, tmp_path / "store"
    store.mkdir()
    store.chmod(0o777)
    words = [ALONE.get(word, filled_in(word)) for word in command_lines()[place]]
    words = [re.sub("brokerId=2", "brokerId=1", word) for word in words]
    spec = spec_of(
        root,
        arguments=[*config["Entrypoint"], *words],
        env=config["Env"],
        mounts={"/store": ("bind", str(store), ["bind", "rw"])},
    )
    name = place.replace(" ", "-")
    with containers.run(name, spec) as process:
        kind, *probe = config["Healthcheck"]["Test"]
        assert kind == "CMD" and READY_PATH in probe[-1]
        wait_answer(containers, process, name, probe, what="healthy")
        assert containers.ask(name, ["id", "-u"]).stdout.strip() == str(USER_ID)
        assert "Read-only" in containers.ask(name, ["touch", "/opt/wakelog/file"]).stderr
        if place in ("Dockerfile", "compose broker"):  # those of the chart are no whole cluster
            said = containers.ask(name, ["wakelog", "hello", "127.0.0.1:9876"])
            assert "received  'hello'" in said.stdout, said
        containers.signal(name, config["StopSignal"])
        assert process.wait_end(seconds_max=STOP_SECONDS_MAX) == 0, containers.log(name)
    assert "wakelog: stopped" in containers.log(name).splitlines()


def test_systemd_starts_the_unit_asks_it_and_stops_it(containers: Containers) -> None:
    """As deploy/README.md says, but that the image has the program and the user."""
    if not CGROUPS.is_dir():
        pytest.skip(f"systemd gets a tree of cgroups in {CGROUPS}, which is not here")
    root = containers.root(packages=["systemd"])
    unit = DEPLOY / "systemd" / "wakelog.service"
    (root / "etc" / "systemd" / "system" / unit.name).write_bytes(unit.read_bytes())
    group = CGROUPS / f"wakelog-test-{root.name[:12]}"
    spec = spec_of(
        root,
        arguments=["/lib/systemd/systemd"],
        env=["container=oci", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
        user=0,
        capabilities=UNIT_CAPABILITIES,
        is_read_only=False,
        mounts={
            "/run": ("tmpfs", "tmpfs", ["mode=755"]),
            "/sys": ("sysfs", "sysfs", ["ro", "nosuid"]),
            "/sys/fs/cgroup": ("tmpfs", "tmpfs", ["mode=755"]),
            str(CGROUPS): ("bind", str(group), ["bind", "rw"]),
        },
    )
    group.mkdir()
    enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]

    def do(line: str) -> str:
        done = containers.ask("unit", ["sh", "-c", line], user=0)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout

    try:
        with containers.run("unit", spec, prefix=enter) as process:
            wait_answer(containers, process, "unit", ["systemctl", "list-units"], what="up", user=0)
            containers.ask("unit", ["systemctl", "start", "wakelog"], user=0)
            show = "systemctl show wakelog -p Result -p ExecMainStatus -p ActiveState"
            asked = ["systemctl", "is-failed", "wakelog"]
            wait_answer(containers, process, "unit", asked, what="refused", user=0)
            refused = {"Result=exit-code", f"ExecMainStatus={MISUSED}", "ActiveState=failed"}
            assert set(do(show).split()) == refused  # it has no broker.conf
            [configured] = CONFIGURED.findall((DEPLOY / "README.md").read_text())
            do(configured)
            do("systemctl enable --now wakelog")
            config = containers.config
            probe = ["env", *config["Env"], *config["Healthcheck"]["Test"][1:]]
            wait_answer(containers, process, "unit", probe, what="healthy")
            assert "received  'hello'" in do("/opt/wakelog/bin/wakelog hello")
            owner = do("stat -c %U /var/lib/wakelog/checkpoint")
            assert owner.strip() == "wakelog"
            do("systemctl stop wakelog")
            ended = {"Result=success", "ExecMainStatus=0", "ActiveState=inactive"}
            assert set(do(show).split()) == ended
            assert "wakelog: stopped" in do("journalctl --no-pager -u wakelog")
            containers.signal("unit", "KILL")
            process.wait_end(seconds_max=STOP_SECONDS_MAX)
    finally:
        containers.close()
        remove_cgroup(group)
        remove_cgroup(CGROUPS.with_name("unified") / group.name)  # which systemd made itself


def remove_cgroup(group: Path) -> None:
    """Remove a cgroup and those below it, once their processes have ended."""
    end = time.monotonic() + STOP_SECONDS_MAX
    while group.exists():
        try:
            for folder in sorted(group.rglob("*/"), reverse=True):
                folder.rmdir()
            group.rmdir()
        except OSError:
            assert time.monotonic() < end, f"{group} still has processes"
            time.sleep(POLL_SECONDS)
