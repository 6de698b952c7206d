"""Job: start a name server and brokers in the Ray cluster that it was submitted to, and end.

The actors are detached: they live on after this job, in the namespace `wakelog`, on the node on
which it ran, where the store is.

    ray job submit --runtime-env deploy/runtime_env.yaml --working-dir . -- \\
        python deploy/start.py --store /var/lib/rocketmq
"""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence

import ray

from deploy.cluster import connect, shared_directory
from wakelog.actors.deploy.group import BROKER, SUPERVISOR
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.deploy.supervised import SupervisedActors, placed, spread_plan
from wakelog.actors.errors import DeploymentFailed
from wakelog.actors.ray.options import Placement, actor_name, find_actor
from wakelog.actors.transport.service_plan import Transport
from wakelog.cli.failures import explain
from wakelog.cli.preflight import preflight
from wakelog.storage.file_system import FileSystem


def read_options(arguments: Sequence[str]) -> tuple[UpOptions, str | None, bool]:
    """Return what the command line said: options as those of `wakelog up`, a resource, and whether
    replicas are spread.
    """
    parser = argparse.ArgumentParser(description="Start wakelog's actors in a Ray cluster.")
    parser.add_argument("--store", required=True, metavar="DIR")
    parser.add_argument("--namesrv-port", type=int, metavar="PORT", dest="name_server_port")
    parser.add_argument("--broker-port", type=int, metavar="PORT")
    parser.add_argument("--bind", default="127.0.0.1", metavar="IP")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--advertise", metavar="IP")
    parser.add_argument("--brokers", type=int, default=1, metavar="N", dest="broker_count")
    parser.add_argument("--replicas", type=int, default=1, metavar="N", dest="replica_count")
    parser.add_argument("--config", metavar="FILE", dest="config_path")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    parser.add_argument("--transport", type=Transport, default=Transport.NOTIFICATIONS)
    parser.add_argument("--metrics-port", type=int, metavar="PORT")
    parser.add_argument(
        "--resource",
        metavar="NAME",
        help="a resource that only the store's node offers, should it come back under another id;"
        " submit the job with the same in --entrypoint-resources",
    )
    parser.add_argument(
        "--spread",
        action="store_true",
        help="replicas live on different nodes; one whose node dies starts on another one, without"
        " its store, and copies the log",
    )
    found = vars(parser.parse_args(arguments))
    resource, is_spread = found.pop("resource"), found.pop("spread")
    return UpOptions(**{**found, "settings": tuple(found["settings"])}), resource, is_spread


def place(plan: Plan, resource: str | None, *, is_spread: bool) -> dict[str, Placement]:
    """Return where brokers have to live, by name. Raises: DeploymentFailed."""
    if is_spread:
        return spread_plan(plan)
    if resource is None:
        placement = Placement(node_id=ray.get_runtime_context().get_node_id())
    else:
        placement = Placement(resource=resource)
    return {broker.name: placement for broker in plan.brokers}


def is_running(plan: Plan) -> bool:
    """Return whether brokers run without their Supervisor, which `ray.kill` has ended."""
    names = (actor_name(broker.name, BROKER) for broker in plan.brokers)
    return any(find_actor(name) is not None for name in names)


async def start(plan: Plan, placements: dict[str, Placement]) -> None:
    """Return once every broker is in the route and accepts. Raises: DeploymentFailed."""
    directory = shared_directory()
    directory.mkdir(mode=0o700, exist_ok=True)
    actors = SupervisedActors(placed(plan, directory, placements))
    try:
        await actors.wait_ready(report_once())
    except BaseException:
        await actors.stop()
        shutil.rmtree(directory)
        raise


def report_once() -> Callable[[str], None]:
    """Return what prints each step; the same words again are no news."""
    said: list[str] = []

    def report(step: str) -> None:
        if said[-1:] != [step]:
            said.append(step)
            print(f"wakelog: {step}", flush=True)

    return report


def main(arguments: Sequence[str]) -> int:
    """Start, say where it is, and return the exit code."""
    options, resource, is_spread = read_options(arguments)
    try:
        connect()
        if find_actor(SUPERVISOR) is not None:
            raise DeploymentFailed("this cluster has a deployment", "Submit deploy/stop.py first.")
        plan = make_plan(options)
        if not is_running(plan):
            plan = preflight(plan, FileSystem())
        for warning in plan.warnings:
            print(f"wakelog: {warning}")
        asyncio.run(start(plan, place(plan, resource, is_spread=is_spread)))
    except Exception as error:
        failure = explain(error)
        print(failure.line, file=sys.stderr)
        return failure.exit_code
    print(f"name server {plan.name_server_address}")
    for broker in plan.brokers:
        print(f"{broker.name} {broker.address} store {broker.store_directory}")
    if plan.metrics_port:
        print(f"metrics on port {plan.metrics_port}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
