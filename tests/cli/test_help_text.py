"""The help of a command, in columns."""

from typing import Annotated

from wakelog.cli.command import Group
from wakelog.cli.help_text import help_text
from wakelog.cli.options import argument, option, switch

GROUP = Group("toy", "Toys.")


@GROUP.command()
def juggle(
    what: Annotated[str, argument("WHAT", "What is thrown.")],
    where: Annotated[str | None, argument("WHERE")] = None,
    balls: Annotated[int, option("N", "How many.", minimum=1)] = 3,
    weight: Annotated[float, option("KG", "Of each.", "-w", "--weight", maximum=2.5)] = 0.5,
    catches: Annotated[bool, option("", "Catch them.")] = True,
    high: Annotated[bool, switch("Higher than the hands, as high as the ceiling is.")] = False,
) -> None:
    """Throw things, and
    catch them.

    Nothing falls.

    \b
    toy juggle knives   --balls 5
    """


def test_a_command_shows_arguments_options_and_examples() -> None:
    assert (
        help_text(GROUP.find("juggle"), columns=60)
        == """\
Usage: toy juggle [OPTIONS] WHAT [WHERE]

  Throw things, and catch them.

  Nothing falls.

  toy juggle knives   --balls 5

Arguments:
  WHAT  What is thrown.  [required]

Options:
  --balls N               How many.  [default: 3; x>=1]
  -w, --weight KG         Of each.  [default: 0.5; x<=2.5]
  --catches <true|false>  Catch them.  [default: true]
  --high                  Higher than the hands, as high as
                          the ceiling is.
  -h, --help              Show this message and exit."""
    )


def test_a_group_lists_its_commands() -> None:
    assert (
        help_text(GROUP, columns=60)
        == """\
Usage: toy [OPTIONS] COMMAND [ARGS]...

  Toys.

Options:
  -h, --help  Show this message and exit.

Commands:
  juggle  Throw things, and catch them."""
    )
