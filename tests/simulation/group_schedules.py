"""Schedules for a simulated group: what happens in which order is the choice of a seed.

Each case of `CASES` prefers some events. In the end everything is mended, and the group has to
serve again with equal logs.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from tests.simulation.group import Connection, Group, Replica
from tests.simulation.oracle import Violation
from wakelog.broker.replication.election import ReplaceState, Role
from wakelog.protocol.member_frames import Ack

STEPS = 150
MENDED_ROUNDS_MAX = 80

Event = Callable[[Group, Random], None]


def _any(group: Group, random: Random) -> Replica:
    return group.replicas[random.randint(1, len(group.replicas))]


def pass_time(group: Group, random: Random) -> None:
    """Let time pass for all, at the rate of each."""
    passed_ms = random.choice((50, 300, 1_000, 1_000, 2_500, 8_000))
    for one in group.replicas.values():
        one.now_ms += int(passed_ms * one.rate)
        if one.is_up and not one.is_paused:
            one.run(one.tick)
            if one.is_up:
                group.check_heard(one)


def deliver(group: Group, random: Random) -> None:
    """Bring some messages, in any order between connections."""
    if not group.connections:
        return
    for _ in range(4):
        one = random.choice(group.connections)
        is_up = bool(one.up) and (not one.down or random.random() < 0.5)
        if one.up or one.down:
            group.deliver(one, is_up=is_up)


def call_register(group: Group, random: Random) -> None:
    """Let the register do something, and maybe answer."""
    if group.calls:
        index = random.randrange(len(group.calls)) if random.random() < 0.3 else 0
        if not group.is_cut(group.calls[index].replica, 0):
            group.process_call(index)
    if group.answers:
        index = random.randrange(len(group.answers)) if random.random() < 0.3 else 0
        if not group.is_cut(0, group.answers[index][0].replica):
            group.deliver_answer(index)


def disturb_register(group: Group, random: Random) -> None:
    """Lose a call or an answer, let a call come late, or do it twice."""
    choice = random.random()
    if choice < 0.3 and group.answers:
        group.answers.pop(random.randrange(len(group.answers)))
    elif choice < 0.4 and group.calls:
        group.calls.pop(random.randrange(len(group.calls)))
    elif choice < 0.7 and group.calls:
        group.calls.append(group.calls.pop(0))
    elif group.calls:
        group.process_call(random.randrange(len(group.calls)), is_kept=True)


def send(group: Group, random: Random) -> None:
    """Send messages to all that call themselves master."""
    for one in group.replicas.values():
        if one.is_up and not one.is_paused and one.election.role is Role.MASTER:
            for _ in range(random.randint(1, 3)):
                group.number += 1
                one.run(one.send, group.number)


def sync(group: Group, random: Random) -> None:
    """Make durable what one replica has."""
    for one in group.replicas.values():
        if one.is_up and not one.is_paused and random.random() < 0.6:
            one.run(one.sync)


def notice_ends(group: Group, _random: Random) -> None:
    """Let connections that are over be noticed."""
    group.add_ends()


def kill(group: Group, random: Random) -> None:
    """Kill a process, or start one again."""
    one = _any(group, random)
    if one.is_up:
        one.stop()
    else:
        one.start()


def revive(group: Group, random: Random) -> None:
    """Start what is dead."""
    one = _any(group, random)
    if not one.is_up:
        one.start()


def lose_power(group: Group, random: Random) -> None:
    """Lose the power of one replica, or of all."""
    chosen = list(group.replicas.values()) if random.random() < 0.3 else [_any(group, random)]
    for one in chosen:
        one.stop()
        one.disk.lose_power(random)


def pause(group: Group, random: Random) -> None:
    """Pause a process, or let one go on; the clock runs meanwhile."""
    one = _any(group, random)
    one.is_paused = not one.is_paused


def cut_links(group: Group, random: Random) -> None:
    """Cut a replica from some others or the register, one way or both; or mend all."""
    if random.random() < 0.3:
        group.cut_links.clear()
        return
    one = _any(group, random).number
    for other in range(len(group.replicas) + 1):
        if random.random() < 0.5:
            direction = random.random()
            if direction < 0.8:
                group.cut_links.add((one, other))
            if direction > 0.2:
                group.cut_links.add((other, one))


def reset_connection(group: Group, random: Random) -> None:
    """End a connection for one side; what is under way may still arrive."""
    if group.connections:
        one = random.choice(group.connections)
        follower = group.replicas[one.follower]
        if random.random() < 0.5 and follower.is_up and follower.connection is one:
            follower.drop_connection()
        else:
            master = group.replicas[one.master]
            if one in master.shipping:
                master.lose(one)


def repeat_frame(group: Group, random: Random) -> None:
    """Bring a message twice, or drop one."""
    if not group.connections:
        return
    one = random.choice(group.connections)
    queue: Any = one.up if random.random() < 0.5 else one.down
    if len(queue) > 0:
        if random.random() < 0.5:
            queue.append(queue[random.randrange(len(queue))])
        else:
            del queue[random.randrange(len(queue))]


def hand_over(group: Group, random: Random) -> None:
    """Let a master hand over to another replica."""
    for one in group.replicas.values():
        if one.is_up and not one.is_paused and one.election.in_sync is not None:
            one.election.hand_over(_any(group, random).number, one.now_ms)


def lie(group: Group, random: Random) -> None:
    """Let a follower acknowledge more than it was sent, or in another epoch."""
    for one in group.connections:
        master = group.replicas[one.master]
        core = master.shipping.get(one)
        if core is not None and core.acked is not None:
            epoch = master.election.epoch - random.randint(0, 1)
            one.up.append(Ack(epoch, core.position + 1_000, is_seeding=False))
            return


def jump_clock(group: Group, random: Random) -> None:
    """Let a clock jump ahead, run at another rate, or stand still."""
    one = _any(group, random)
    one.rate = random.choice((0.0, 0.5, 1.0, 2.0))
    if random.random() < 0.3:
        one.now_ms += 3_600_000


def break_disk(group: Group, random: Random) -> None:
    """Let a disk fail, or work again."""
    one = _any(group, random)
    one.disk.fails = not one.disk.fails
    one.disk.file.fails = one.disk.fails and random.random() < 0.5


def remove_begin(group: Group, random: Random) -> None:
    """Remove the begin of a master's log."""
    for one in group.replicas.values():
        if one.is_up and one.election.in_sync is not None and random.random() < 0.7:
            one.disk.retain(max(one.disk.begin, one.election.in_sync.confirmed - 3))


def replace_disk(group: Group, random: Random) -> None:
    """Replace the disk of one replica by an empty one; only while the others are whole."""
    state, one = group.state, _any(group, random)
    is_odd = one.is_foreign or bool(one.disk.file.mark.is_seeding)
    if state is None or one.number == state.master or is_odd:
        return
    if any(not group.is_eligible(other) for other in state.in_sync):
        return
    one.stop()
    one.life += 1
    group.calls = [call for call in group.calls if call.replica != one.number]
    one.disk.lose_everything()


def meet_foreign(group: Group, random: Random) -> None:
    """Put the disk of another group, or other bytes of the same length, into one replica."""
    one = _any(group, random)
    state = group.state
    if state is None or one.number in state.in_sync or one.is_foreign or not one.disk.numbers:
        return
    if any(one.number in (link.follower, link.master) for link in group.connections):
        return  # what it has acknowledged or sent may still come
    for other in group.replicas.values():
        undecided = other.election._undecided
        if undecided is not None and one.number in undecided[0].in_sync:
            return
    if any(isinstance(call.action, ReplaceState) for call in group.calls):
        return  # a set with this replica may be under way
    one.stop()
    one.is_foreign = True
    if random.random() < 0.5:
        mark = one.disk.file.mark
        one.disk.file.mark = mark._replace(log_id=bytes(15) + b"\xff")
    else:
        one.disk.numbers = [-number for number in one.disk.numbers]


ALWAYS: dict[Event, int] = {
    pass_time: 16, deliver: 40, call_register: 16, send: 10, sync: 12, notice_ends: 4, revive: 3,
}  # fmt: skip

CASES: dict[str, dict[Event, int]] = {
    "S1 partitions": {cut_links: 6},
    "S2 a member leaves and comes back": {reset_connection: 5, disturb_register: 8, pause: 2},
    "S3 an old master returns": {kill: 5, pause: 4},
    "S4 the heir dies": {kill: 10},
    "S5 power": {lose_power: 5},
    "S6 clocks": {jump_clock: 6, kill: 2, cut_links: 2},
    "S7 disks": {break_disk: 5, kill: 1},
    "S8 pauses": {pause: 8},
    "S9 frames": {repeat_frame: 8, reset_connection: 6, lie: 2},
    "S10 the register": {disturb_register: 14, kill: 2, cut_links: 2},
    "S11 seeding": {remove_begin: 4, replace_disk: 4, kill: 3, cut_links: 1},
    "planned switches": {hand_over: 5, disturb_register: 4, kill: 2, cut_links: 1},
    "another log": {meet_foreign: 5, kill: 5, reset_connection: 2},
    "all of them": {
        cut_links: 2, disturb_register: 2, kill: 2, lose_power: 1, jump_clock: 1, break_disk: 1,
        pause: 2, repeat_frame: 1, reset_connection: 1, remove_begin: 1, replace_disk: 1,
    },
}  # fmt: skip

_WEIGHTED = {
    name: (list(ALWAYS | events), list((ALWAYS | events).values()))
    for name, events in CASES.items()
}
_NAMES = list(CASES)


def run_schedule(seed: int, case: str | None = None) -> Group:
    """Run the schedule of a seed, of this case or of the one that the seed chooses.

    Raises: Violation.
    """
    random = Random(seed)
    name = case or _NAMES[seed % len(_NAMES)]
    replicas_min = random.choice((1, 1, 2))
    group = Group(random, size=random.choice((2, 3, 3)), replicas_min=replicas_min)
    if random.random() < 0.8:
        mend(group, must_serve=False, rounds_max=12)
    events, weights = _WEIGHTED[name]
    try:
        for event in random.choices(events, weights, k=STEPS):
            event(group, random)
        if can_serve(group):
            mend(group, must_serve=True, rounds_max=MENDED_ROUNDS_MAX)
    except Violation as violation:
        violation.add_note(f"{name}, seed {seed}")
        raise
    return group


def can_serve(group: Group) -> bool:
    """Whether a replica is left that may lead."""
    state = group.state
    if state is None:
        return True
    whole = [one for one in group.replicas.values() if not one.is_foreign]
    return len(whole) >= whole[0].settings.replicas_min and any(
        group.is_eligible(one.number) for one in whole if one.number in state.in_sync
    )


def mend(group: Group, *, must_serve: bool, rounds_max: int) -> None:
    """Mend everything, and let time pass until the group serves. Raises: Violation."""
    group.cut_links.clear()
    replicas = [one for one in group.replicas.values() if not one.is_foreign]
    for one in replicas:
        one.rate, one.is_paused = 1.0, False
        one.disk.fails = one.disk.file.fails = False
    sent = 0
    for _ in range(rounds_max):
        for one in replicas:
            one.now_ms += 500
            if not one.is_up:
                one.start()
            one.run(one.tick)
        _settle(group)
        master = _serving(group, replicas)
        if master is not None and not must_serve:
            return
        if master is not None and sent not in master.disk.numbers:  # an earlier one may lose it
            group.number += 1
            sent = group.number
            master.run(master.send, sent)
            _settle(group)
        if sent in group.acknowledged and _are_equal(replicas):
            return
    if must_serve:
        raise Violation("S", f"the group does not serve: {group.state}")


def _serving(group: Group, replicas: list[Replica]) -> Replica | None:
    """Return the master that takes sends and has all replicas in its set, None for none."""
    state = group.state
    if state is None or len(state.in_sync) != len(replicas):
        return None
    for one in replicas:
        if one.election.takes_sends and one.election.epoch == state.epoch:
            return one
    return None


def _settle(group: Group) -> None:
    """Bring all that is under way, and make all durable."""
    for _ in range(3):
        while group.calls:
            group.process_call(0)
        while group.answers:
            group.deliver_answer(0)
        group.add_ends()
        for one in list(group.connections):
            _bring_all(group, one)
        for replica in group.replicas.values():
            if replica.is_up and replica.disk.durable < replica.disk.end:
                replica.run(replica.sync)


def _bring_all(group: Group, one: Connection) -> None:
    for _ in range(20):
        if one.up:
            group.deliver(one, is_up=True)
        if one.down:
            group.deliver(one, is_up=False)
        if not (one.up or one.down):
            return


def _are_equal(replicas: list[Replica]) -> bool:
    begin = max(one.disk.begin for one in replicas)
    first = replicas[0].disk
    return all(
        one.disk.end == first.end
        and one.disk.part(begin, first.end) == first.part(begin, first.end)
        for one in replicas
    )
