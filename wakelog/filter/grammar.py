"""The grammar of SQL92 filters, and what upstream says of text that does not fit it.

lark makes an LALR(1) parser of the grammar. Each construct becomes an `Expression` as soon as it is
complete, so that errors come in upstream's order. Upstream's parser is LL with three lookaheads and
does not ask for the end of the text, which shows in three ways that are kept here:

- An expression ends before the first word that cannot follow: `a > 5 garbage` is `a > 5`.
- A NOT behind an operand that no BETWEEN or IN follows is itself the wrong word.
- A plus sign whose operand is not complete is itself the wrong word.

Source: org.apache.rocketmq.filter.parser.SelectorParser.jj, ParseException (4.9.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from wakelog.filter import operators as make
from wakelog.filter.errors import IllegalExpression
from wakelog.filter.expression import (
    PARSE_EXCEPTION,
    Expression,
    constant,
    decimal,
    floating,
    property_of,
)
from wakelog.filter.limits import WORDS_PER_STEP, check_words
from wakelog.filter.tokens import END, KEYWORDS, SIGNS, Lexeme, Lexer, escape, unescape_string
from wakelog.protocol.steps import Steps, finish

if TYPE_CHECKING:
    from lark import Lark, Token

GRAMMAR: Final = """
?start: condition
?condition: conjunction
    | condition OR conjunction                      -> disjunction
?conjunction: equality
    | conjunction AND equality                      -> conjunction
?equality: comparison
    | equality EQUAL comparison                     -> equal
    | equality NOT_EQUAL comparison                 -> not_equal
    | equality IS NULL                              -> is_null
    | equality IS NOT NULL                          -> is_not_null
?comparison: unary
    | comparison GREATER unary                      -> order
    | comparison GREATER_EQUAL unary                -> order
    | comparison LESS unary                         -> order
    | comparison LESS_EQUAL unary                   -> order
    | comparison BETWEEN unary AND unary            -> between
    | comparison NOT BETWEEN unary AND unary        -> not_between
    | comparison IN LEFT strings RIGHT              -> contained
    | comparison NOT IN LEFT strings RIGHT          -> not_contained
?unary: primary
    | PLUS unary                                    -> unchanged
    | MINUS unary                                   -> negate
    | NOT unary                                     -> negation
?primary: STRING                                    -> string
    | DECIMAL                                       -> decimal
    | FLOAT                                         -> floating
    | TRUE                                          -> true
    | FALSE                                         -> false
    | NULL                                          -> null
    | IDENTIFIER                                    -> property_of
    | LEFT condition RIGHT                          -> enclosed
strings: STRING (COMMA STRING)*
"""

# As upstream lists what it expected; a plus sign it expects silently.
_ORDER: Final = (
    *("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"),
    *("DECIMAL", "FLOAT", "STRING", "IDENTIFIER"),
    *("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
    *("LEFT", "COMMA", "RIGHT", "MINUS"),
)
_IMAGES: Final = {
    **{word: f'"{word}"' for word in KEYWORDS},
    **{kind: f'"{sign}"' for sign, kind in SIGNS.items()},
    "DECIMAL": "<DECIMAL_LITERAL>",
    "FLOAT": "<FLOATING_POINT_LITERAL>",
    "STRING": "<STRING_LITERAL>",
    "IDENTIFIER": "<ID>",
}
_OPERAND: Final = frozenset(
    {"NOT", "TRUE", "FALSE", "NULL", "DECIMAL", "FLOAT", "STRING", "IDENTIFIER", "LEFT", "MINUS"}
)
_COMPARISON: Final = frozenset({"BETWEEN", "IN", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"})


def parse(text: str) -> Expression:
    """Return the expression that `text` begins with. Raises: IllegalExpression."""
    return finish(parse_in_steps(text))


def parse_in_steps(text: str, factor: int = 1) -> Steps[Expression]:
    """Return the expression that `text` begins with, after steps of WORDS_PER_STEP words.

    factor: multiplies the limits of one expression.
    Raises: IllegalExpression.
    """
    from lark.exceptions import UnexpectedToken

    words = Lexer(text)
    parser = _begun()
    fed: list[Lexeme] = []
    while True:
        try:
            word = words.next()
        except IllegalExpression:
            # What is complete without a look at the next word was checked before that look:
            # everything up to comparisons, which a sign of order finishes.
            _reduce(parser, "GREATER")
            raise
        try:
            if word.kind != END:
                parser.feed_token(_token(word))
                fed.append(word)
                check_words(len(fed), factor)
                if not len(fed) % WORDS_PER_STEP:
                    yield
                continue
        except UnexpectedToken:
            # The wrong word has finished constructs that the end of the text may not finish.
            parser = yield from _fed(fed)
        try:
            found: Expression = parser.feed_eof()
        except UnexpectedToken:
            before = yield from _fed(fed)
            raise _syntax_error(before, word, words) from None
        return make.condition(found)


def _begun() -> Any:  # lark leaves half of its parser without types
    return _grammar().parse_interactive()


def _fed(words: Sequence[Lexeme]) -> Steps[Any]:
    """Return a parser that was fed these words, which fit."""
    parser = _begun()
    for number, word in enumerate(words):
        parser.feed_token(_token(word))
        if not number % WORDS_PER_STEP:
            yield
    return parser


def _syntax_error(parser: Any, word: Lexeme, words: Lexer) -> IllegalExpression:
    accepted = parser.accepts()
    # OR follows a complete condition, AND also the lower bound of a BETWEEN.
    values = _reduce(parser, "OR") or _reduce(parser, "AND") or parser.parser_state.value_stack
    plus = next((value for value in values if getattr(value, "type", "") == "PLUS"), None)
    if plus is not None:
        word = Lexeme("PLUS", "+", plus.start_pos)
        expected = _OPERAND
    elif accepted == {"BETWEEN", "IN"}:
        word = Lexeme("NOT", str(values[-1]), values[-1].start_pos)
        expected = _COMPARISON
    elif accepted == {"NOT", "NULL"}:
        expected = frozenset({"NOT"})  # behind IS upstream has looked for NULL already
    else:
        expected = frozenset(accepted) - {END, "PLUS"}
    return IllegalExpression(f"{PARSE_EXCEPTION}: {_describe(word, expected, words)}")


def _describe(word: Lexeme, expected: frozenset[str], words: Lexer) -> str:
    if word.kind == END:
        found, (line, column) = "<EOF>", words.place(word.position - 1)
    else:
        line, column = words.place(word.position)
        found = f' {_IMAGES[word.kind]} "{escape(word.text)} "'
    kinds = [_IMAGES[kind] for kind in _ORDER if kind in expected]
    listed = "".join(f"{kind} ...\n    " for kind in kinds)
    one_of = "" if len(kinds) == 1 else " one of"
    return (
        f'Encountered "{found}" at line {line}, column {column}.\n'
        f"Was expecting{one_of}:\n    {listed}"
    )


def _reduce(parser: Any, kind: str) -> list[Any] | None:
    """Finish, in a copy, what a word of this kind would finish; return what waits for its rest.

    Returns: None if no such word can follow.
    Raises: IllegalExpression if what is complete makes no sense.
    """
    from lark.exceptions import UnexpectedToken

    ahead = parser.copy(deepcopy_values=False)
    try:
        ahead.feed_token(_token(Lexeme(kind, "", 0)))
    except UnexpectedToken:
        return None
    return list(ahead.parser_state.value_stack[:-1])


def _token(word: Lexeme) -> Token:
    from lark import Token

    return Token(word.kind, word.text, word.position)


@cache
def _grammar() -> Lark:
    # Imported when the first filter comes: most brokers never see one, and every start would pay.
    from lark import Lark
    from lark.lexer import Lexer

    class FedLexer(Lexer):
        """Stands where lark wants a lexer: words are fed."""

        def __init__(self, _configuration: Any) -> None: ...

        def lex(self, *_: Any) -> Iterator[Token]:
            """Cut nothing."""
            return iter(())

    return Lark(
        f"{GRAMMAR}\n%declare {' '.join(_ORDER)} PLUS\n",
        parser="lalr",
        lexer=FedLexer,
        transformer=cast(Any, SimpleNamespace(**_BUILDERS)),
    )


_BUILDERS: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "disjunction": lambda parts: make.disjunction(parts[0], parts[2]),
    "conjunction": lambda parts: make.conjunction(parts[0], parts[2]),
    "equal": lambda parts: make.equal(parts[0], parts[2]),
    "not_equal": lambda parts: make.negation(make.equal(parts[0], parts[2])),
    "is_null": lambda parts: make.is_null(parts[0]),
    "is_not_null": lambda parts: make.negation(make.is_null(parts[0])),
    "order": lambda parts: make.order(str(parts[1]), parts[0], parts[2]),
    "between": lambda parts: make.between(parts[0], parts[2], parts[4]),
    "not_between": lambda parts: make.disjunction(
        make.order("<", parts[0], parts[3]), make.order(">", parts[0], parts[5])
    ),
    "contained": lambda parts: make.contained(parts[0], parts[3], negated=False),
    "not_contained": lambda parts: make.contained(parts[0], parts[4], negated=True),
    "strings": lambda parts: [unescape_string(part) for part in parts[::2]],
    "unchanged": lambda parts: parts[1],
    "negate": lambda parts: make.negate(parts[1]),
    "negation": lambda parts: make.negation(parts[1]),
    "string": lambda parts: constant(unescape_string(parts[0])),
    "decimal": lambda parts: decimal(str(parts[0])),
    "floating": lambda parts: floating(str(parts[0])),
    "true": lambda _: constant(True),
    "false": lambda _: constant(False),
    "null": lambda _: constant(None),
    "property_of": lambda parts: property_of(str(parts[0])),
    "enclosed": lambda parts: parts[1],
}
"""What each construct of the grammar becomes; signs and keywords stand among its parts."""
