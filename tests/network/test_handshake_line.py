"""Handshakes in their turn, without sockets."""

from tests.network.fakes import FakeLoop
from wakelog.network.handshake_line import BEGUN_PER_TURN, UNFINISHED_MAX, HandshakeLine


class FakeHandshake:
    def __init__(self, *, is_closed: bool = False) -> None:
        self.is_closed = is_closed
        self.is_begun = self.is_given_up = False
        self.may_begin = True

    def is_ready(self) -> bool:
        return self.may_begin

    def begin(self) -> bool:
        self.is_begun = not self.is_closed
        return self.is_begun

    def give_up(self) -> None:
        self.is_given_up = True


def enter(line: HandshakeLine, count: int, *, is_closed: bool = False) -> list[FakeHandshake]:
    entered = [FakeHandshake(is_closed=is_closed) for _ in range(count)]
    for one in entered:
        line.enter(one)
    return entered


def begun(handshakes: list[FakeHandshake]) -> list[FakeHandshake]:
    return [one for one in handshakes if one.is_begun]


def test_few_begin_in_a_turn_in_the_order_in_which_they_came() -> None:
    loop = FakeLoop()
    line = HandshakeLine(loop.call_soon)
    entered = enter(line, 2 * BEGUN_PER_TURN + 1)
    for turn in range(1, 4):
        assert begun(entered) == entered[: turn * BEGUN_PER_TURN]
        loop.turn_over()
    loop.turn_over()
    assert not loop.ready, "a line without anyone asks for no turn"
    assert begun(enter(line, 1))


def test_a_closed_connection_takes_nobodys_turn() -> None:
    loop = FakeLoop()
    line = HandshakeLine(loop.call_soon)
    enter(line, BEGUN_PER_TURN)
    entered = enter(line, 1_000, is_closed=True) + enter(line, BEGUN_PER_TURN)
    loop.turn_over()
    assert len(begun(entered)) == BEGUN_PER_TURN


def test_the_oldest_of_too_many_unfinished_ones_is_given_up() -> None:
    loop = FakeLoop()
    line = HandshakeLine(loop.call_soon)
    entered = enter(line, UNFINISHED_MAX)
    loop.run_until_quiet()
    line.finished(entered[0])
    entered += enter(line, 1)
    loop.run_until_quiet()
    assert not any(one.is_given_up for one in entered)
    entered += enter(line, 1)
    loop.run_until_quiet()
    assert [one for one in entered if one.is_given_up] == [entered[1]]
    line.finished(entered[1])


def test_none_begins_before_it_is_ready_and_then_few_in_a_turn() -> None:
    loop = FakeLoop()
    line = HandshakeLine(loop.call_soon)
    entered = [FakeHandshake() for _ in range(3 * BEGUN_PER_TURN)]
    for one in entered:
        one.may_begin = False
        line.enter(one)
    assert not begun(entered)
    assert not loop.ready, "what is not ready asks for no turn"
    for one in entered:
        one.may_begin = True
    line.go_on()
    assert begun(entered) == entered[:BEGUN_PER_TURN]
    loop.turn_over()
    assert begun(entered) == entered[: 2 * BEGUN_PER_TURN]
