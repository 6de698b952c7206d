"""What crosses between the Broker and a service arrives as it was."""

import pickle

import msgspec

from tests.actors.services.fakes import attach_request
from wakelog.actors.services.session import AttachRequest, Refused


def test_a_request_to_attach_travels_as_builtins() -> None:
    request = attach_request(appended=9, delay_positions={1: 5, 18: 0}, dispatch_from=3)
    crossed = pickle.loads(pickle.dumps(msgspec.to_builtins(request)))
    assert msgspec.convert(crossed, AttachRequest) == request


def test_a_refusal_crosses_processes_with_its_words() -> None:
    assert str(pickle.loads(pickle.dumps(Refused("not attached")))) == "not attached"
