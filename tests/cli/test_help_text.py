"""The help of a command, in columns."""

from wakelog.cli.command import Group
from wakelog.cli.help_text import help_text
from wakelog.cli.options import argument, option, switch

GROUP = Group("toy", "Toys.")


@GROUP.command()
def juggle(
    what: str = argument("WHAT", "What is thrown."),
    where: str | None = argument("WHERE"),
    balls: int = option("N", "How many.", minimum=1, default=3),
    weight: float = option("KG", "Of each.", "-w", "--weight", maximum=2.5, default=0.5),
    catches: bool = option("", "Catch them.", default=True),
    high: bool = switch("Higher than the hands, as high as the ceiling is."),
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
