"""Writers that append words to one value by compare-and-set, and what must be there afterwards."""

import json
import threading

from wakelog.actors.registers.register import (
    AnswerLost,
    Register,
    RegisterUnreachable,
    StaleVersion,
)


class Writer(threading.Thread):
    """Appends words to a list, each until that is answered or unsure."""

    def __init__(self, register: Register, key: str, name: str, *, words_count: int) -> None:
        super().__init__(name=name)
        self.register, self.key, self.words_count = register, key, words_count
        self.answered: list[str] = []
        self.unsure: list[str] = []
        self.failures_count = 0

    def run(self) -> None:
        for n in range(self.words_count):
            self._append(f"{self.name}.{n}")
        self.register.close()

    def _append(self, word: str) -> None:
        while True:
            try:
                held = self.register.read(self.key)
                words = json.loads(held.value or b"[]")
                self.register.replace(self.key, json.dumps([*words, word]).encode(), held.version)
                self.answered.append(word)
                return
            except StaleVersion:
                continue
            except AnswerLost:
                self.unsure.append(word)
                return
            except RegisterUnreachable:
                self.failures_count += 1


def check_words(register: Register, key: str, writers: list[Writer]) -> None:
    words = json.loads(register.read(key).value)
    assert len(set(words)) == len(words)
    answered = {word for writer in writers for word in writer.answered}
    unsure = {word for writer in writers for word in writer.unsure}
    assert answered <= set(words) <= answered | unsure
    for writer in writers:
        mine = [word for word in words if word in writer.answered]
        assert mine == writer.answered
