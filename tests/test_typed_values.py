"""Values of a known type, and the type that two threads meet first at once."""

import subprocess
import sys

import msgspec
import pytest

from wakelog.typed_values import (
    convert,
    decode_json,
    decode_msgpack,
    json_decoder,
    msgpack_decoder,
)


class Part(msgspec.Struct):
    """A type within another."""

    number: int = 0


class Whole(msgspec.Struct):
    """A type that has parts."""

    parts: dict[int, list[Part]] = {}


def test_every_form_gives_the_value() -> None:
    whole = Whole({7: [Part(1), Part(2)]})
    plain = {"parts": {7: [{"number": 1}, {"number": 2}]}}
    packed, text = msgspec.msgpack.encode(plain), msgspec.json.encode(plain)
    assert decode_json(text, Whole) == json_decoder(Whole).decode(text) == whole
    assert decode_msgpack(packed, Whole) == msgpack_decoder(Whole).decode(packed) == whole
    assert convert(plain, Whole) == whole
    assert convert({(1, 2): "x"}, dict[tuple[int, int], str]) == {(1, 2): "x"}


def test_texts_are_numbers_only_where_it_is_said() -> None:
    assert convert({"number": "3"}, Part, strict=False) == Part(3)
    assert json_decoder(Part, strict=False).decode(b'{"number": "3"}') == Part(3)
    with pytest.raises(msgspec.ValidationError):
        convert({"number": "3"}, Part)
    with pytest.raises(msgspec.ValidationError):
        json_decoder(Part).decode(b'{"number": "3"}')


def test_a_type_that_cannot_be_read_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(TypeError):
            convert({}, dict[Part, int | Part | Whole])  # two kinds of objects in one union


FIRST_MET_AT_ONCE = """
import threading
from wakelog import typed_values
import msgspec

met = []

class Slow:
    def __class_getitem__(cls, kind):
        if not met:  # the first thread is in the middle of the description of Whole
            met.append(threading.Thread(target=read))
            met[0].start()
            met[0].join(0.05)  # it waits for this thread, or dies
        return kind

class Part(msgspec.Struct):
    number: "Slow[int]" = 0

class Whole(msgspec.Struct):
    part: Part

def read():
    assert SECOND.part.number == 5

value = {"part": {"number": 5}}
text, packed = msgspec.json.encode(value), msgspec.msgpack.encode(value)
assert FIRST.part.number == 5
met[0].join()
print("both have read it")
"""

FORMS = (
    "typed_values.convert(value, Whole)",
    "typed_values.decode_json(text, Whole)",
    "typed_values.decode_msgpack(packed, Whole)",
    "typed_values.json_decoder(Whole).decode(text)",
    "typed_values.msgpack_decoder(Whole).decode(packed)",
)


@pytest.mark.parametrize("form", range(len(FORMS)))
def test_two_threads_may_meet_a_type_at_once(form: int) -> None:
    first, second = FORMS[form], FORMS[(form + 1) % len(FORMS)]
    program = FIRST_MET_AT_ONCE.replace("FIRST", first).replace("SECOND", second)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "both have read it\n"), done.stderr


FORKED_MEANWHILE = """
import os, threading
from wakelog import typed_values
import msgspec

begun, go_on = threading.Event(), threading.Event()

class Slow:
    def __class_getitem__(cls, kind):
        if not begun.is_set():  # a thread is in the middle of the description of Whole
            begun.set()
            go_on.wait()
        return kind

class Part(msgspec.Struct):
    number: "Slow[int]" = 0

class Whole(msgspec.Struct):
    part: Part

def read():
    assert typed_values.convert({"part": {"number": 5}}, Whole).part.number == 5

thread = threading.Thread(target=read)
thread.start()
begun.wait()
threading.Timer(0.05, go_on.set).start()
child = os.fork()
if not child:
    threading.Timer(20.0, os._exit, (3,)).start()  # it waits for a thread that it has not
    read()
    os._exit(0)
thread.join()
read()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_waits_for_a_description() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED_MEANWHILE]  # of threads and forks
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
