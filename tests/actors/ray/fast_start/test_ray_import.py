"""Ray is imported without what no call of ours needs, and all of that stays available."""

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
{before}
from wakelog.actors.ray.fast_start.ray_import import import_ray
import_ray()
import_ray()
from ray._common.pydantic_compat import register_pydantic_serializers
register_pydantic_serializers(None) if "pydantic" not in sys.modules else None
print("pydantic" in sys.modules, "ray.actor" in sys.modules)
import ray.util.state
from ray._common.pydantic_compat import PYDANTIC_INSTALLED
print(PYDANTIC_INSTALLED)
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("before", "is_seen"), [("", False), ("import pydantic", True)])
def test_ray_sees_pydantic_only_where_it_is_imported_or_needed(before: str, is_seen: bool) -> None:
    command = [sys.executable, "-c", _PROGRAM.format(before=before)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == f"{is_seen} True\nTrue\n"


_LATER = """
import sys
from wakelog.actors.ray.fast_start.worker_template import import_actors
import_actors()
print(sorted({"jsonschema", "requests", "urllib3", "wcwidth"} & set(sys.modules)))
from ray._private.accelerators import tpu
from ray._private.runtime_env import plugin_schema_manager
print(tpu.requests.Request("GET").method, tpu.requests.exceptions.Timeout.__name__)
print(plugin_schema_manager.jsonschema.validate({}, {"type": "object"}))
import jsonschema, requests
print(requests.Request is tpu.requests.Request)
"""


@pytest.mark.process
@pytest.mark.slow
def test_ray_imports_an_http_client_when_it_uses_it() -> None:
    command = [sys.executable, "-c", _LATER]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.splitlines() == ["[]", "GET Timeout", "None", "True"]


_EXPORT = """
import dis
from wakelog.actors.ray.fast_start.worker_template import import_actors
import_actors()
from wakelog.actors.deploy.supervisor import SupervisorActor
from ray._private.function_manager import FunctionActorManager
dis.dis = None
print(FunctionActorManager(None).compute_collision_identifier(SupervisorActor))
import ray
from ray import cloudpickle
exported = cloudpickle.dumps(ray.remote(SupervisorActor).__ray_metadata__.modified_class)
print(b"_resume_span" in exported)
"""


@pytest.mark.process
@pytest.mark.slow
def test_no_class_that_is_exported_is_disassembled_or_wrapped() -> None:
    command = [sys.executable, "-c", _EXPORT]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout == "b'SupervisorActor'\nFalse\n"


_DRIVER = """
from wakelog.actors.ray.fast_start.ray_import import driver_of, import_ray
import_ray()
import ray._private.services as services, ray._private.ray_constants as constants
before = services.find_node_ids, constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV
with driver_of("ab"):
    print(services.find_node_ids(), constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV)
print(before == (services.find_node_ids, constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV))
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_driver_of_a_known_node_searches_none() -> None:
    command = [sys.executable, "-c", _DRIVER]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.splitlines() == ["{'ab'} False", "True"]


_PICKLERS = """
import sys
from wakelog.actors.ray.fast_start.worker_template import import_actors
import_actors()
from ray import cloudpickle
from ray.util import serialization_addons
class Context:
    def _register_cloudpickle_serializer(self, kind, **_):
        print("prepared", kind.__name__)
    def _register_cloudpickle_reducer(self, kind, reducer):
        print("prepared", kind.__name__)
serialization_addons.apply(Context())
print([x for x in ("pyarrow", "starlette") if x in sys.modules])
import pyarrow
print(pyarrow.table({"n": [1]}).num_rows, any("_AtImport" in repr(x) for x in sys.meta_path))
import starlette.datastructures
"""


@pytest.mark.process
@pytest.mark.slow
def test_arrow_is_prepared_for_pickling_once_it_is_imported() -> None:
    command = [sys.executable, "-c", _PICKLERS]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    first, *prepared, last = found.stdout.splitlines()
    assert (first, last) == ("[]", "1 False")
    assert {"prepared Table", "prepared ParseOptions"} <= set(prepared)
