"""What goes wrong between a user, a store and Spark.

    SourceError
    +-- OptionError       an option that does not exist, does not fit, or is not for this mode
    +-- StoreUnreadable   a path that holds no store or no log
    +-- DataLost          rows that were asked for are not there; failOnDataLoss=false goes on
    +-- JobFailed         a job over a whole log cannot begin, or not end

Spark shows the text with a traceback around it: each says what to do.
"""

from __future__ import annotations


class SourceError(Exception):
    """Any of the errors above."""


class OptionError(SourceError):
    """The options, or the schema, ask for something that cannot be; the text names what can."""


class StoreUnreadable(SourceError):
    """A path is not a store directory, nor a folder of commit-log files, nor can it be read."""


class DataLost(SourceError):
    """What was asked for was removed, was cut off or never was; with a way to go on without it."""

    def __init__(self, what: str) -> None:
        """Say what is lost; the advice is added."""
        self.what = what
        super().__init__(
            f"{what}. Rows that this query counts on are not there; set failOnDataLoss to false "
            "to read what is left"
        )


class JobFailed(SourceError):
    """A job could not begin, or not go on, and what to do about it."""

    def __init__(self, cause: str, remedy: str) -> None:
        """Keep both: the command line says them as two sentences."""
        self.cause = cause
        self.remedy = remedy
        super().__init__(f"{cause}; {remedy}")
