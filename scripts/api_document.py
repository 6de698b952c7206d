"""docs/python_api.md: every public class of the client and of the tests' broker, from docstrings.

The source is parsed, not imported: signatures and texts stand in the document as in the code.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent

INTRODUCTION: Final = """\
Every public class, with the docstrings of its methods. Begin with [client.md](client.md) for the
producer, [consumer.md](consumer.md) for the consumer, and [cookbook.md](cookbook.md) for recipes.
[codecs.md](codecs.md) tells of values, [data_frames.md](data_frames.md) of Arrow.

`wakelog.client.sync` has `Producer`, `Consumer` and `ConsumerMessage` with the same names. There
`with`, `for` and plain calls stand in the place of `async with`, `async for` and `await`.
`check` is a plain function there. `start` and `close` belong to `with`."""


class Documented(NamedTuple):
    """A class or function, the module that has it, and the name by which users import it."""

    name: str
    path: str
    place: str = "wakelog.client"


SECTIONS: Final = {
    "Send": (
        Documented("Producer", "client/producer.py"),
        Documented("Message", "client/messages.py"),
        Documented("Receipt", "client/receipts.py"),
        Documented("Transaction", "client/transactions.py"),
        Documented("TransactionState", "client/transactions.py"),
    ),
    "Receive": (
        Documented("Consumer", "client/consumer.py"),
        Documented("ConsumerMessage", "client/consumer_message.py"),
        Documented("ReceivedMessage", "client/received.py"),
        Documented("MessageQueue", "protocol/body_codec.py"),
        Documented("Sql", "client/consumer_arguments.py"),
    ),
    "Values": (
        Documented("Codec", "client/codecs.py"),
        Documented("JsonCodec", "client/codecs.py"),
        Documented("MsgpackCodec", "client/codecs.py"),
        Documented("TypedProducer", "client/typed.py"),
        Documented("TypedConsumer", "client/typed.py"),
        Documented("TypedMessage", "client/typed.py"),
        Documented("RetryPolicy", "client/retry_policy.py"),
        Documented("BadBody", "client/typed.py"),
    ),
    "Connect": (
        Documented("Settings", "client/options.py", "wakelog.client.options"),
        Documented("Tls", "network/tls.py"),
        Documented("ClientOptions", "client/options.py", "wakelog.client.options"),
        Documented("Credentials", "network/signing.py", "wakelog.network.signing"),
    ),
    "Errors": (
        Documented("ClientError", "client/errors.py"),
        Documented("NotAcknowledged", "client/errors.py"),
        Documented("InvalidArgument", "client/errors.py"),
        Documented("NoReply", "client/errors.py"),
    ),
    "Operate": (
        Documented("open_admin", "client/admin.py", "wakelog.client.admin"),
        Documented("Admin", "client/admin.py", "wakelog.client.admin"),
        Documented("QueueAt", "client/route.py", "wakelog.client.route"),
        Documented("TopicConfig", "protocol/bodies.py"),
    ),
    "Test": (
        Documented("EmbeddedBroker", "testing/embedded_broker.py", "wakelog.testing"),
        Documented("AsyncEmbeddedBroker", "testing/embedded_broker.py", "wakelog.testing"),
    ),
}

_FIELD: Final = re.compile(r"^(\w+(?:, \w+)*): ")


def lines() -> Iterator[str]:
    """Yield the paragraphs of the document, without its title."""
    for title, classes in SECTIONS.items():
        yield f"## {title}"
        for documented in classes:
            yield from _class_paragraphs(documented)


def _class_paragraphs(documented: Documented) -> Iterator[str]:
    module = ast.parse((ROOT / "wakelog" / documented.path).read_text(encoding="utf-8"))
    found = next(
        node
        for node in module.body
        if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef) and node.name == documented.name
    )
    if isinstance(found, ast.AsyncFunctionDef):
        yield f"### {documented.name}"
        yield f"`{documented.place}.{documented.name}`."
        yield from _method_paragraphs(documented.name, found)
        return
    bases = [name for name in map(ast.unparse, found.bases) if name in _SHOWN_BASES]
    yield f"### {documented.name}"
    kind = f", a {' and a '.join(f'`{name}`' for name in bases)}" if bases else ""
    yield f"`{documented.place}.{documented.name}`{kind}."
    text = ast.get_docstring(found) or ""
    if text.startswith("See the module"):
        begin = (ast.get_docstring(module) or "").partition("\n")[0]
        text = text.replace(text.partition("\n")[0], f"{begin[0].upper()}{begin[1:]}", 1)
    yield from _paragraphs(text)
    fields = [
        node
        for node in found.body
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.target).startswith("_")
    ]
    if fields:
        yield "\n".join(["```", *(ast.unparse(node) for node in fields), "```"])
    for node in found.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_shown(node):
            among = node.args.posonlyargs or node.args.args
            del among[0]  # self
            yield from _method_paragraphs(documented.name, node)


_OF_TESTS: Final = frozenset({"connect", "now_ms"})
"""Arguments in the place of which only the tests of the client give others."""

_SHOWN_BASES: Final = frozenset({"ReceivedMessage", "ClientError", "ValueError", "Exception"})


def _is_shown(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    if node.name == "__init__":
        return bool(node.args.args[1:] or node.args.kwonlyargs)
    is_setter = any(ast.unparse(each).endswith(".setter") for each in node.decorator_list)
    return not node.name.startswith("_") and not is_setter


def _method_paragraphs(
    class_name: str, node: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[str]:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    text = ast.get_docstring(node) or ""
    if decorators & {"property", "cached_property"}:
        returns = f": {ast.unparse(node.returns)}" if node.returns else ""
        yield "\n".join(["```", f"{node.name}{returns}", "```"])
    else:
        call = f"{class_name if node.name == '__init__' else node.name}({_arguments(node.args)})"
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        if node.name == "__init__":
            returns = ""
        yield "\n".join(["```", f"{_opening(node, decorators)}{call}{returns}", "```"])
    yield from _paragraphs(text)


def _opening(node: ast.FunctionDef | ast.AsyncFunctionDef, decorators: set[str]) -> str:
    if "asynccontextmanager" in decorators:
        return "async with "
    if "contextmanager" in decorators:
        return "with "
    if isinstance(node, ast.AsyncFunctionDef):
        return "await "
    return ""


def _arguments(arguments: ast.arguments) -> str:
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    shown = [pair for pair in pairs if pair[0].arg not in _OF_TESTS]
    arguments.kwonlyargs = [argument for argument, _ in shown]
    arguments.kw_defaults = [default for _, default in shown]
    text = ast.unparse(arguments)
    return text if len(text) < 60 else "\n    " + ",\n    ".join(_split(text)) + ",\n"


def _split(text: str) -> list[str]:
    """Split arguments at the commas outside of brackets and quotes."""
    parts, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += character in "([{"
        depth -= character in ")]}"
        if character == "," and not depth:
            parts.append(text[begin:position].strip())
            begin = position + 1
    return [*parts, text[begin:].strip()]


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring; the lines about arguments and errors as a list."""
    for number, paragraph in enumerate(filter(None, text.split("\n\n"))):
        items: list[str] = []
        for line in map(str.strip, paragraph.splitlines()):
            begins = _FIELD.match(line) or line.startswith("Raises: ") or not items
            if begins:
                items.append(line)
            else:
                items[-1] += f" {line}"
        if number and any(_FIELD.match(item) or item.startswith("Raises: ") for item in items):
            yield "\n".join(f"- {item}" for item in items)
        else:
            yield "\n".join(items)
