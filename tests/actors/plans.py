"""Plans of single services, for tests."""

from pathlib import Path
from typing import Any

from wakelog.actors.transport.service_plan import ServicePlan, Transport
from wakelog.broker.config_file import read_broker_conf

SEGMENT_BYTES = 64 << 10

SMALL = {
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


def service_plan(
    directory: Path,
    *,
    transport: Transport = Transport.REFERENCES,
    in_one_process: bool = True,
    **settings: Any,
) -> ServicePlan:
    """Return the plan of a broker with small files below a directory."""
    (directory / "run").mkdir(exist_ok=True)
    overrides = {"storePathRootDir": str(directory / "store"), **SMALL}
    overrides |= {key: str(value) for key, value in settings.items()}
    return ServicePlan(
        settings=read_broker_conf("", overrides=overrides),
        bind_host="127.0.0.1",
        transport=transport,
        runtime_directory=str(directory / "run"),
        log_directory=str(directory / "logs"),
        memory_directory=str(directory),
        in_one_process=in_one_process,
    )


def notified_plan(directory: Path, **settings: Any) -> ServicePlan:
    """Return a plan whose services notify each other, as if each had a process of its own."""
    return service_plan(
        directory, transport=Transport.NOTIFICATIONS, in_one_process=False, **settings
    )
