"""Job: start a name server and brokers in the Ray cluster that it was submitted to, and end.

The actors are detached: they live on after this job, in the namespace `wakelog`, on the node on
which it ran, where the store is.

    ray job submit --runtime-env deploy/runtime_env.yaml --working-dir . -- \\
        python deploy/start.py --store /var/lib/rocketmq
"""

import asyncio
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Final

import ray

from deploy.cluster import connect, shared_directory
from wakelog.actors.deploy.group import BROKER, SUPERVISOR
from wakelog.actors.deploy.plan import Plan, UpOptions
from wakelog.actors.deploy.planning import make_plan
from wakelog.actors.deploy.supervised import SupervisedActors, placed, spread_plan
from wakelog.actors.errors import DeploymentFailed, NotPossible
from wakelog.actors.ray.options import Placement, actor_name, find_actor
from wakelog.cli.command import Command
from wakelog.cli.failures import explain
from wakelog.cli.help_text import help_text
from wakelog.cli.options import Text, option, switch
from wakelog.cli.preflight import preflight
from wakelog.cli.start import broker_options
from wakelog.storage.file_system import FileSystem


def deploy(
    options: UpOptions,
    resource: Text = option(
        "NAME",
        "A resource that only the store's node offers, should it come back under another id; "
        "submit the job with the same in --entrypoint-resources.",
    ),
    spread: bool = switch(
        "Replicas live on different nodes; one whose node dies starts on another one, without its "
        "store, and copies the log."
    ),
) -> None:
    """Start wakelog's actors in a Ray cluster, and say where they listen.

    --store has to be given: a job runs in a folder of its own.
    """
    if options.store is None:
        raise NotPossible("missing option '--store'", "A job runs in a folder of its own: name it.")
    connect()
    if find_actor(SUPERVISOR) is not None:
        raise DeploymentFailed("this cluster has a deployment", "Submit deploy/stop.py first.")
    plan = make_plan(options)
    if not is_running(plan):
        plan = preflight(plan, FileSystem())
    for warning in plan.warnings:
        print(f"wakelog: {warning}")
    asyncio.run(start(plan, place(plan, resource, is_spread=spread)))
    print(f"name server {plan.name_server_address}")
    for broker in plan.brokers:
        print(f"{broker.name} {broker.address} store {broker.store_directory}")
    if plan.metrics_port:
        print(f"metrics on port {plan.metrics_port}")


job: Final = Command(deploy, "deploy/start.py", broker_options, one_of=(), differs="")


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
    """Do what the command line asks for, and return the exit code."""
    try:
        call = job.read(arguments)
        if call is None:
            print(help_text(job))
        else:
            call()
    except Exception as error:
        failure = explain(error)
        print(failure.line, file=sys.stderr)
        return failure.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
