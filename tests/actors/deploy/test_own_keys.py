"""The keys that only `wakelog up` knows."""

import pytest

from wakelog.actors.deploy.own_keys import OWN_KEYS, OWN_PREFIX
from wakelog.actors.deploy.plan import UpOptions
from wakelog.actors.deploy.planning import make_plan


@pytest.mark.parametrize("key", OWN_KEYS)
def test_a_key_may_be_given_with_its_default(key: str) -> None:
    default = OWN_KEYS[key].default
    assert key.startswith(OWN_PREFIX)
    assert make_plan(UpOptions(settings=(f"{key}={default}",))) == make_plan(UpOptions())
