"""Several replicas, a network and a register in one thread, with the real cores of replication.

`Group` holds all; `Replica` is what a process does with its cores; `Connection` has the bytes that
are under way. What happens next is the choice of `group_schedules`. Each promise is checked as soon
as something could have broken it.

    R1  an epoch has one master          R5  promise before acknowledgement
    R2  a master was in the set          R6  cut behind what was acknowledged, with a copy
    R3  acknowledged is everywhere       R7  another log gets nothing, and gives nothing
    R4  what the register may have       R8  what was shown stays
        counts                           R9  a master that hears nothing steps down
"""

from collections import deque
from random import Random
from typing import Any, NamedTuple

from tests.simulation.group_disk import DiskModel
from tests.simulation.oracle import Violation
from wakelog.broker.replication.election import (
    LOST,
    Election,
    ElectionSettings,
    ReadRegister,
    ReplaceState,
    Role,
    StepDown,
    TakeRole,
)
from wakelog.broker.replication.epochs import Epochs
from wakelog.broker.replication.group_state import GroupState, ReplicaAddress, VersionedState
from wakelog.broker.replication.ha_client_state import FetchEnded
from wakelog.broker.replication.member_shipping import MasterLogView, MemberShipping
from wakelog.broker.replication.replica_fetch import OwnLog, ReplicaFetch
from wakelog.protocol.member_frames import Ack, Answer, Data, Hello
from wakelog.storage.errors import StoreFailed

SEGMENT = 16
TRANSFER = 6
NAME = "group"
ADDRESSES = {one: ReplicaAddress(f"h{one}:1", f"h{one}:2") for one in range(1, 8)}
FRESH_MS = ElectionSettings().fresh_ms


class Call(NamedTuple):
    """A call to the register that is under way."""

    replica: int
    life: int
    action: ReadRegister | ReplaceState


class Connection:
    """One TCP connection: bytes in order each way, until an end notices that it is over."""

    def __init__(self, follower: int, master: int) -> None:
        self.follower, self.master = follower, master
        self.up: deque[Hello | Ack] = deque()
        self.down: deque[Answer | Data] = deque()
        self.is_open_up = self.is_open_down = True


class Replica:
    """A process on its disk; `start` makes one of a dead one."""

    def __init__(self, group: "Group", number: int, settings: ElectionSettings) -> None:
        self.group, self.number, self.settings = group, number, settings
        self.disk = DiskModel()
        self.life = 0
        self.is_up = self.is_paused = False
        self.now_ms, self.rate = 1_000_000 * number, 1.0
        self.is_foreign = False

    # The process.

    def start(self) -> None:
        """Recover, and begin as a follower."""
        disk = self.disk
        self.life += 1
        self.is_up, self.is_paused = True, False
        self.epochs = Epochs(disk.file, disk.end)
        self.election = Election(
            self.settings,
            self.number,
            ADDRESSES[self.number],
            self.epochs,
            self,
            new_log_id=self.number.to_bytes(16, "big"),
            is_log_empty=not disk.numbers,
            now_ms=self.now_ms,
        )
        self.following: ReplicaFetch | None = None
        self.connection: Connection | None = None
        self.shipping: dict[Connection, MemberShipping] = {}
        self.waiting: list[tuple[int, int]] = []
        self.shown = 0
        self.wants_seed = False
        self.register_ms = self.now_ms
        self.heard_ms: dict[int, int] = {}

    def stop(self) -> None:
        """Die; connections are noticed later by the others."""
        self.is_up = False
        self.drop_connection()
        for one in self.shipping:
            one.is_open_down = False
        self.shipping = {}

    @property
    def end(self) -> int:
        """Where the log ends."""
        return self.disk.end

    def freeze(self) -> int:
        """Append nothing more of a master, and make all durable."""
        self.drop_connection()
        self.disk.sync()
        return self.disk.end

    def drop_connection(self) -> None:
        """Follow no more."""
        if self.connection is not None:
            self.connection.is_open_up = False
        self.connection = self.following = None

    def fail(self) -> None:
        """Do what a process does whose disk has failed: end."""
        self.stop()

    def run(self, event: Any, *arguments: Any) -> None:
        """Let something happen, then do what follows from it."""
        if not self.is_up:
            return
        try:
            event(*arguments)
            self.after()
        except StoreFailed:
            self.fail()

    def tick(self) -> None:
        """Do what is due."""
        self.election.tick(self.now_ms)
        for connection, core in list(self.shipping.items()):
            if core.why_over(self.now_ms):
                self.lose(connection)
        if self.following is not None and self.following.why_over(self.now_ms):
            self.drop_connection()
        if self.connection is None:
            self.connect()

    def connect(self) -> None:
        """Connect to the master that the register names."""
        leader = self.election.leader
        if not leader or self.group.is_cut(self.number, leader) or self.disk.fails:
            return
        if self.wants_seed:
            self.seed()
        peer = self.group.replicas[leader]
        if not peer.is_up or peer.election.role is not Role.MASTER:
            return
        self.disk.sync()
        log = OwnLog(NAME, self.number, SEGMENT, self.disk.begin, self.disk.end)
        reported = self.election.reported_confirmed
        self.following = ReplicaFetch(self.epochs, log, reported, self.now_ms)
        self.connection = Connection(self.number, leader)
        self.group.connections.append(self.connection)
        self.connection.up.append(self.following.hello())

    def seed(self) -> None:
        """Set the whole log aside, and begin with a copy."""
        self.wants_seed = False
        self.epochs.join(self.epochs.log_id, is_seeding=True)
        self.disk.set_aside(self.disk.begin)
        self.disk.empty(0)
        self.election.reported_confirmed = 0

    def after(self) -> None:
        """Carry out actions, ship, acknowledge, and see what is confirmed."""
        election = self.election
        for action in election.actions:
            if isinstance(action, TakeRole):
                self.take_role(action)
            elif isinstance(action, StepDown):
                self.end_role()
            else:
                self.group.calls.append(Call(self.number, self.life, action))
        election.actions.clear()
        in_sync = election.in_sync
        if in_sync is not None:
            if in_sync.confirmed > self.shown:
                self.shown = in_sync.confirmed
                self.group.check_confirmed(self, in_sync.confirmed)
            while self.waiting and self.waiting[0][0] <= in_sync.confirmed:
                self.group.note_answered(self, *self.waiting.pop(0))
            self.group.check_counted(self)
            if self.shipping:
                self.ship()
        elif self.following is not None:
            self.acknowledge()

    # As master.

    def view(self) -> MasterLogView:
        """Return what may be shipped."""
        epochs, disk = self.epochs, self.disk
        return MasterLogView(
            NAME, epochs.log_id, self.election.epoch, epochs.lines, SEGMENT, disk.begin, disk.end
        )

    def take_role(self, action: TakeRole) -> None:
        """Begin an epoch: connections of an older one end."""
        self.group.check_role(self, action)
        for connection in list(self.shipping):
            self.lose(connection)
        self.shown = 0
        self.register_ms = self.now_ms
        self.heard_ms = {}

    def end_role(self) -> None:
        """Answer what waits with code 14."""
        self.waiting.clear()
        for connection in list(self.shipping):
            self.lose(connection)

    def lose(self, connection: Connection) -> None:
        """End a follower's connection."""
        core = self.shipping.pop(connection)
        connection.is_open_down = False
        if self.election.in_sync is not None and core.acked is not None:
            self.election.in_sync.on_lost(core.replica, self.now_ms)

    def send(self, number: int) -> None:
        """Store a message, or answer 14."""
        if self.election.takes_sends:
            self.disk.append([number])
            self.waiting.append((self.disk.end, number))

    def sync(self) -> None:
        """Make durable what was written."""
        self.disk.sync()
        if self.election.in_sync is not None:
            self.election.in_sync.on_own_durable(self.disk.durable)

    def receive_from_follower(self, connection: Connection, message: Hello | Ack) -> None:
        """Take what a follower has sent."""
        in_sync = self.election.in_sync
        if in_sync is None:
            connection.is_open_down = False
            return
        if isinstance(message, Hello):
            for other in list(self.shipping):
                if other.follower == connection.follower:
                    self.lose(other)
            core = MemberShipping(TRANSFER, self.now_ms)
            self.shipping[connection] = core
            answer = core.answer_hello(message, self.view(), self.disk.checksum, self.now_ms)
            connection.down.append(answer)
            if core.met_promise:
                self.election.on_promise(core.met_promise)
            return
        found = self.shipping.get(connection)
        if found is None:
            return
        found.on_ack(message, self.now_ms)
        if found.acked is not None:
            self.heard_ms[found.replica] = self.now_ms
            in_sync.on_ack(found.replica, found.acked, self.now_ms, is_seeding=found.is_seeding)
        else:
            in_sync.on_lost(found.replica, self.now_ms)

    def ship(self) -> None:
        """Send what there is."""
        view, in_sync = self.view(), self.election.in_sync
        assert in_sync is not None
        for connection, core in list(self.shipping.items()):
            if core.refusal:
                self.lose(connection)
                continue
            while len(connection.down) < 3:
                head = core.next_head(view, in_sync.confirmed, self.now_ms)
                if head is None:
                    break
                numbers = self.disk.part(head.offset, head.offset + head.size_bytes)
                connection.down.append(Data(head, numbers))  # type: ignore[arg-type]

    # As a follower.

    def receive_from_master(self, connection: Connection, message: Answer | Data) -> None:
        """Take what a master has sent."""
        core = self.following
        if connection is not self.connection or core is None:
            return
        try:
            if isinstance(message, Answer):
                cut = core.check_answer(message, self.disk.checksum, self.now_ms)
                self.group.check_cut(self, connection, cut.offset)
                if cut.seed_from is not None:
                    self.disk.empty(cut.seed_from)
                elif cut.offset < self.disk.end:
                    lost = tuple(self.disk.part(cut.offset, self.disk.end))
                    self.set_aside(cut.offset)
                    self.disk.cut(cut.offset)
                    self.group.check_aside(self, lost)
                core.on_cut()
            else:
                head = message.head
                if core.accept_head(head, self.now_ms):
                    self.group.check_origin(self, connection)
                    self.disk.append(message.data)  # type: ignore[arg-type]
                self.election.on_frame(head.end, core.end, head.confirmed, self.now_ms)
        except FetchEnded:
            self.wants_seed = core.must_seed and not self.is_foreign
            self.drop_connection()

    def set_aside(self, offset: int) -> None:
        """Copy to the quarantine what will be cut."""
        self.disk.set_aside(offset)

    def acknowledge(self) -> None:
        """Send an acknowledgement if one is due."""
        assert self.following is not None and self.connection is not None
        ack = self.following.next_ack(self.disk.durable, self.now_ms)
        if ack is not None:
            self.group.check_ack(self, ack)
            self.connection.up.append(ack)


class Group:
    """All replicas, the network between them, and the register."""

    def __init__(self, random: Random, *, size: int = 3, replicas_min: int = 1) -> None:
        self.random = random
        self.connections: list[Connection] = []
        self.calls: list[Call] = []
        self.answers: list[tuple[Call, Any]] = []
        self.state: GroupState | None = None
        self.version = 0
        self.cut_links: set[tuple[int, int]] = set()
        self.acknowledged: list[int] = []
        self.masters: dict[int, int] = {}
        self.number = 0
        self.answered_count = 0
        settings = ElectionSettings(replicas_min=replicas_min)
        self.replicas = {
            one: Replica(self, one, settings._replace(may_found=one == 1))
            for one in range(1, size + 1)
        }
        for replica in self.replicas.values():
            replica.start()

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing passes from one replica to another; 0 is the register."""
        return (source, target) in self.cut_links

    # The register.

    def process_call(self, index: int, *, is_kept: bool = False) -> None:
        """Let the register do a call; `is_kept` lets it come a second time."""
        call = self.calls[index] if is_kept else self.calls.pop(index)
        action = call.action
        if isinstance(action, ReadRegister):
            version = str(self.version) if self.version else ""
            self.answers.append((call, VersionedState(self.state, version)))
            return
        if action.version != (str(self.version) if self.version else ""):
            self.answers.append((call, None))
            return
        self.check_replace(call, action.state)
        self.state, self.version = action.state, self.version + 1
        self.answers.append((call, str(self.version)))
        for replica in self.replicas.values():
            if replica.is_up and replica.election.in_sync is not None:
                self.check_counted(replica)

    def deliver_answer(self, index: int) -> None:
        """Bring an answer of the register."""
        call, found = self.answers.pop(index)
        replica = self.replicas[call.replica]
        if not replica.is_up or replica.life != call.life or replica.is_paused:
            return
        election = replica.election
        if found is not None:
            replica.register_ms = replica.now_ms
        if isinstance(call.action, ReadRegister):
            before = election.version
            replica.run(election.on_read, call.action.call, found, replica.now_ms)
            if election.refusal == LOST or int(election.version or 0) < int(before or 0):
                raise Violation("answers", f"replica {replica.number} goes back from {before}")
        else:
            replica.run(election.on_replaced, call.action.call, found, replica.now_ms)

    # The network.

    def deliver(self, connection: Connection, *, is_up: bool) -> None:
        """Bring the next message of one direction."""
        if is_up:
            target = self.replicas[connection.master]
            if self.is_cut(connection.follower, connection.master) or target.is_paused:
                return
            message = connection.up.popleft()
            if target.is_up and connection.is_open_down:
                target.run(target.receive_from_follower, connection, message)
            return
        follower = self.replicas[connection.follower]
        if self.is_cut(connection.master, connection.follower) or follower.is_paused:
            return
        answer = connection.down.popleft()
        if follower.is_up and connection.is_open_up:
            follower.run(follower.receive_from_master, connection, answer)

    def add_ends(self) -> None:
        """Let the ends of connections that are over notice it."""
        kept = []
        for one in self.connections:
            follower, master = self.replicas[one.follower], self.replicas[one.master]
            if not one.is_open_up and not one.up and one in master.shipping:
                master.lose(one)
            if not one.is_open_down and not one.down and follower.connection is one:
                follower.drop_connection()
            if (one.is_open_up or one.up) and (one.is_open_down or one.down):
                kept.append(one)
        self.connections = kept

    # What must hold.

    def is_eligible(self, number: int) -> bool:
        """Whether a replica's disk lets it become master."""
        slot = self.replicas[number].disk.file.mark
        return not slot.is_seeding and slot.log_id == bytes.fromhex(self.state.log_id)  # type: ignore[union-attr]

    def has_acknowledged(self, number: int) -> bool:
        """Whether a replica has every acknowledged byte durably, apart from removed ones."""
        disk, acknowledged = self.replicas[number].disk, self.acknowledged
        count = len(acknowledged)
        if not count:
            return True
        return disk.durable >= count and disk.part(disk.begin, count) == acknowledged[disk.begin :]

    def check_replace(self, call: Call, state: GroupState) -> None:
        """Look at a value that replaces another one."""
        old, proposer = self.state, call.replica
        if old is None:
            return
        if state.epoch != old.epoch:
            self.check_elected(proposer, old, state)
        elif state.in_sync != old.in_sync:
            if proposer != state.master:
                raise Violation("R4", f"{proposer} changes the set of {state.master}")
            for joined in state.in_sync - old.in_sync:
                if self.is_eligible(joined) and not self.has_acknowledged(joined):
                    raise Violation("R4", f"{joined} joins without what is acknowledged")

    def check_elected(self, proposer: int, old: GroupState, state: GroupState) -> None:
        """Look at a value with a new epoch."""
        if state.epoch < old.epoch:
            raise Violation("R1", f"epoch {state.epoch} after {old.epoch}")
        if state.master not in old.in_sync or not state.in_sync <= old.in_sync:
            raise Violation("R2", f"{state} after {old}")
        if not self.is_eligible(state.master) or not self.has_acknowledged(state.master):
            raise Violation("R2", f"master {state.master} lacks acknowledged bytes")
        if self.replicas[proposer].disk.file.mark.promise < state.epoch:
            raise Violation("R5", f"epoch {state.epoch} was not promised")

    def check_counted(self, master: Replica) -> None:
        """Look whether a master waits for all that could be elected."""
        state, election = self.state, master.election
        if state is None or state.epoch != election.epoch or election.in_sync is None:
            return
        if not state.in_sync <= election.in_sync.counted:
            raise Violation("R4", f"{election.in_sync.counted} count, and {state.in_sync} may lead")

    def check_confirmed(self, master: Replica, confirmed: int) -> None:
        """Look at what a master shows, and says to be safe."""
        disk, known = master.disk, self.acknowledged
        if confirmed > disk.durable:
            raise Violation("R3", f"{confirmed} is confirmed, and {disk.durable} durable")
        both = min(confirmed, len(known))
        if disk.part(disk.begin, both) != known[disk.begin : both]:
            raise Violation("R8", f"{known} was shown, and {disk.numbers} is")
        if confirmed <= len(known):
            return
        known += disk.part(len(known), confirmed)
        state = self.state
        assert state is not None
        for number in state.in_sync:
            if self.is_eligible(number) and not self.has_acknowledged(number):
                raise Violation("R3", f"{confirmed} is confirmed, and {number} lacks it")

    def note_answered(self, master: Replica, end: int, number: int) -> None:
        """Look at an answer 0 to a client."""
        self.answered_count += 1
        if len(self.acknowledged) < end or self.acknowledged[end - 1] != number:
            raise Violation("R3", f"{master.number} answers 0 for {number} at {end}")

    def check_role(self, master: Replica, action: TakeRole) -> None:
        """Look at a new master."""
        first = self.masters.setdefault(action.epoch, master.number)
        if first != master.number:
            raise Violation("R1", f"epoch {action.epoch} has masters {first}, {master.number}")
        disk = master.disk
        if not action.start == disk.end == disk.durable:
            raise Violation("R1", f"epoch {action.epoch} starts at {action.start} of {disk.end}")
        line = disk.file.mark.lines[-1]
        if line != (action.epoch, action.start):
            raise Violation("R1", f"epoch {action.epoch} begins without a line: {line}")
        is_current = self.state is not None and self.state.epoch == action.epoch
        if is_current and not self.has_acknowledged(master.number):
            raise Violation("R2", f"{master.number} leads without what is acknowledged")

    def check_ack(self, replica: Replica, ack: Ack) -> None:
        """Look at an acknowledgement that leaves."""
        disk = replica.disk
        if disk.file.mark.promise != ack.epoch:
            raise Violation("R5", f"{ack} with the promise {disk.file.mark.promise}")
        if ack.durable > disk.durable:
            raise Violation("R3", f"{ack}, and {disk.durable} is durable")
        if not ack.is_seeding and disk.file.mark.is_seeding:
            raise Violation("R5", f"{ack} while it is being seeded")

    def check_cut(self, replica: Replica, connection: Connection, offset: int) -> None:
        """Look at what a follower is about to cut."""
        self.check_origin(replica, connection)
        state = self.state
        is_member = state is not None and replica.number in state.in_sync
        if is_member and self.is_eligible(replica.number) and offset < len(self.acknowledged):
            raise Violation("R6", f"{replica.number} cuts at {offset}")

    def check_aside(self, replica: Replica, lost: tuple[int, ...]) -> None:
        """Look for the copy of what was cut."""
        if not replica.disk.aside or replica.disk.aside[-1] != lost:
            raise Violation("R6", f"{replica.number} cut {lost} without a copy")

    def check_origin(self, replica: Replica, connection: Connection) -> None:
        """Look whether bytes come from the same log."""
        if replica.is_foreign or self.replicas[connection.master].is_foreign:
            raise Violation("R7", f"{replica.number} takes bytes of {connection.master}")

    def check_heard(self, master: Replica) -> None:
        """Look whether a master has stepped down that hears neither register nor set."""
        election = master.election
        if election.role is not Role.MASTER or election.in_sync is None:
            return
        others = election.in_sync.counted - {master.number}
        heard_ms = min((master.heard_ms.get(one, 0) for one in others), default=master.now_ms)
        silent_ms = master.now_ms - max(heard_ms, master.register_ms)
        if silent_ms > FRESH_MS:
            raise Violation("R9", f"{master.number} leads after {silent_ms} ms of silence")
