"""Random filter expressions, sound and broken, and random properties for them."""

from random import Random

NAMES = ("a", "b", "c", "$d_1", "TAGS", "not_there")
NUMBERS = (
    *("0", "1", "5", "7", "42", "2147483647", "2147483648", "9223372036854775807", "3L", "9l"),
    *("1.5", ".5", "5.", "5e0", "1E2", "2.5e-3", "1e300"),
)
ODD_NUMBERS = ("9223372036854775808", "0.0", "1e400", "007", "0L", "4.9e-324", "1e-400", "00.5")
STRINGS = ("'x'", "'5'", "''", "'it''s'", "'\u00e9'", "'\U0001f600'", "'1.5'", "'true'", "'10'")
WORDS = ("TRUE", "FALSE", "NULL")
VALUES = (
    *("x", "5", "", "it's", "\u00e9", "\U0001f600", "1.5", "true", "TRUE", "10", "-3", "+7", " 5 "),
    *("2147483647", "2147483648", "-9223372036854775808", "9223372036854775808", "5L", "0x1p3"),
    *("NaN", "Infinity", "-Infinity", "-0", "0", "-0.0", "1e2", "5.", ".5", "5f", "5d", "1_0"),
    *("\u0663", "\uff15", "0x10", "+", "-", ".", "1e", "007", "TagA"),
)
SIGNS = ("=", "<>", "<", ">", "<=", ">=")
BROKEN = (*SIGNS, *"()+-,#!/\"'.;", "AND", "OR", "NOT", "IN", "IS", "BETWEEN", "NULL", "5", "'x'")
SPACES = (" ", " ", " ", "  ", "\t", "\n", "\r\n", " /* c */ ", " -- c\n")
DEPTH_MAX = 4


def random_properties(random: Random) -> dict[str, str]:
    """Return properties, of which each may be absent."""
    return {name: random.choice(VALUES) for name in NAMES[:-1] if random.random() < 0.7}


def random_expression(random: Random) -> str:
    """Return an expression; about half are refused, for their words or for their meaning."""
    words = _condition(random, 0)
    if random.random() < 0.15:
        _break(random, words)
    text = words[0]
    for word in words[1:]:
        text += random.choice(SPACES) + word
    return _any_case(random, text)


def _condition(random: Random, depth: int) -> list[str]:
    kind = random.random()
    if depth >= DEPTH_MAX or kind < 0.5:
        return _comparison(random, depth)
    if kind < 0.75:
        return [*_condition(random, depth + 1), "AND", *_condition(random, depth + 1)]
    if kind < 0.87:
        return [*_condition(random, depth + 1), "OR", *_condition(random, depth + 1)]
    if kind < 0.93:
        return ["NOT", *_condition(random, depth + 1)]
    return ["(", *_condition(random, depth + 1), ")"]


def _comparison(random: Random, depth: int) -> list[str]:
    left = _operand(random, depth)
    kind = random.random()
    if kind < 0.55:
        return [*left, random.choice(SIGNS), *_operand(random, depth)]
    no = ["NOT"] if random.random() < 0.4 else []
    if kind < 0.68:
        return [*left, "IS", *no, "NULL"]
    if kind < 0.82:
        bounds = _operand(random, depth), _operand(random, depth)
        return [*left, *no, "BETWEEN", *bounds[0], "AND", *bounds[1]]
    if kind < 0.95:
        listed = [random.choice(STRINGS) for _ in range(random.randint(1, 6))]
        return [*left, *no, "IN", "(", *" , ".join(listed).split(" "), ")"]
    return left


def _operand(random: Random, depth: int) -> list[str]:
    kind = random.random()
    if kind < 0.5:
        return [random.choice(NAMES)]
    if kind < 0.77:
        return [random.choice(NUMBERS)]
    if kind < 0.79:
        return [random.choice(ODD_NUMBERS)]
    if kind < 0.89:
        return [random.choice(STRINGS)]
    if kind < 0.92:
        return [random.choice(WORDS)]
    if kind < 0.97 or depth >= DEPTH_MAX:
        return [random.choice("+-"), *_operand(random, DEPTH_MAX)]
    return ["(", *_condition(random, depth + 1), ")"]


def _break(random: Random, words: list[str]) -> None:
    at = random.randrange(len(words))
    match random.randrange(3):
        case 0 if len(words) > 1:
            del words[at]
        case 1:
            words[at] = random.choice(BROKEN)
        case _:
            words.insert(at, random.choice(BROKEN))


def _any_case(random: Random, text: str) -> str:
    if random.random() < 0.9:
        return text
    return text.replace("AND", "aNd").replace("NULL", "null").replace("NOT", "Not")
