"""What a processor has done for it, and how what is left of a request is done."""

from tests.broker.harness import FakeChannel, Waiting
from wakelog.broker.effects import InPool, Work, WorkKind, make_body, rest_of
from wakelog.network.request import Request
from wakelog.protocol.codes import ResponseCode
from wakelog.protocol.command import RemotingCommand, make_request


def request() -> Request[None]:
    return Request(make_request(28, opaque=7), None, FakeChannel(1), 0)


def test_a_body_is_made_in_the_pool_and_answered() -> None:
    waiting = Waiting(None, make_body(request(), lambda: b"body", WorkKind.ENCODE)).resume()
    assert isinstance(waiting, Waiting) and isinstance(waiting.effect, InPool)
    assert waiting.effect.kind is WorkKind.ENCODE
    response = waiting.resume(waiting.effect.work())
    assert isinstance(response, RemotingCommand)
    assert (response.code, response.opaque, response.body) == (ResponseCode.SUCCESS, 7, b"body")


def test_the_rest_of_a_request_is_its_work_or_nothing() -> None:
    done = request().success()

    def work() -> Work:
        yield
        return done

    assert Waiting(None, rest_of(done)).resume() is done
    paused = Waiting(None, rest_of(work())).resume()
    assert isinstance(paused, Waiting) and paused.effect is None
    assert paused.resume() is done
