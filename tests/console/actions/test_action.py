"""The fields of an action and the command that they make."""

from wakelog.console.actions.action import (
    LINES_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    Action,
    Field,
    words_of,
)

ACTION = Action(
    "paint",
    "Paint",
    (
        Field("name", "Name", pattern="[a-z]+", help="letters"),
        Field("count", "Count", "number", "4", minimum=1, maximum=9),
        Field("kind", "Kind", "choice", "a", choices=(("a", "A"), ("b", "B"))),
        Field("loud", "Loud", "switch", "true"),
        Field("body", "Body", "lines", is_required=False),
        Field("key", "Key", "secret", is_required=False),
    ),
    words_of("paint {name} -k {key}"),
    "/paint/{name}",
)


def wrong(**given: str) -> dict[str, str]:
    return ACTION.checked({"name": "x", **given})[1]


def test_fields_have_their_first_values_until_others_are_given() -> None:
    values, refused = ACTION.checked({})
    assert (values["count"], values["kind"], values["loud"]) == ("4", "a", "true")
    assert refused == {"name": "Name is needed"}


def test_a_switch_that_a_form_leaves_out_is_off() -> None:
    values, refused = ACTION.checked({"name": "x"})
    assert values["loud"] == "" and not refused


def test_each_kind_says_what_it_takes() -> None:
    assert wrong(name="X 1") == {"name": "'X 1' does not fit: letters"}
    assert wrong(count="many") == {"count": "'many' is no whole number"}
    assert wrong(count="10") == {"count": "Count is from 1 to 9"}
    assert wrong(kind="c") == {"kind": "'c' is none of a, b"}
    assert "it may have 1,024" in wrong(name="x" * (TEXT_LENGTH_MAX + 1))["name"]
    assert wrong(body="x" * (LINES_LENGTH_MAX + 1)).keys() == {"body"}


def test_texts_lose_blanks_around_them_and_lines_keep_theirs() -> None:
    values, _ = ACTION.checked({"name": " x ", "body": " a\r\nb "})
    assert (values["name"], values["body"]) == ("x", " a\nb ")


def test_a_secret_that_does_not_fit_is_not_repeated() -> None:
    field = Field("key", "Key", "secret", pattern=r"\S{7,}", help="7 characters")
    action = ACTION._replace(fields=(field,))
    assert action.checked({"key": "short1"})[1] == {"key": "Key does not fit: 7 characters"}
    assert not action.checked({"key": "long-enough"})[1]


def test_a_secret_that_a_broker_repeats_is_hidden() -> None:
    values, _ = ACTION.checked({"name": "x", "key": "hidden"})
    assert ACTION.hidden("secretKey=hidden is no key", values) == "secretKey=... is no key"
    assert ACTION.hidden("nothing to hide", {"key": ""}) == "nothing to hide"


def test_a_secret_is_in_no_command_that_is_shown() -> None:
    values, _ = ACTION.checked({"name": "it's", "key": "hidden"})
    assert ACTION.command(values) == "wakelog paint 'it'\"'\"'s' -k ..."
    assert ACTION.secrets == ("key",)


def test_the_account_in_an_address_is_not_shown() -> None:
    action = Action("move", "Move", (Field("to", "To", "address"),), words_of("move {to}"), "/")
    values, refused = action.checked({"to": "etcd://user:secret@a:1,b:1"})
    assert not refused and list(action.words(values)) == ["move", "etcd://user:secret@a:1,b:1"]
    assert action.command(values) == "wakelog move etcd://a:1,b:1"
    said = "etcd://user:secret@a:1,b:1 does not answer"
    assert action.hidden(said, values) == "etcd://a:1,b:1 does not answer"


def test_a_template_takes_values_whole_and_the_first_part_that_has_some() -> None:
    words = words_of("paint [-b {one}|-c {all}] -l [{is-loud}|false] [-x {x}]")
    values = {"one": "", "all": "a b -x {one}", "is-loud": "", "x": ""}
    assert words(values) == ["paint", "-c", "a b -x {one}", "-l", "false"]
    more = {**values, "one": "1", "is-loud": "true", "x": "y"}
    assert words(more) == ["paint", "-b", "1", "-l", "true", "-x", "y"]
