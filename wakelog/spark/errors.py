"""The errors of the Spark source.

    SourceError
    +-- OptionError       an option that does not exist, has a wrong value, or is for another mode
    +-- StoreUnreadable   a path without a store or a log
    +-- DataLost          rows of the query are gone; failOnDataLoss=false continues without them
    +-- JobFailed         a job over a whole log cannot begin, or cannot end

Spark shows the text within a traceback, so each text says what to do. Calls over the wire raise
`client.errors.ClientError`.
"""


class SourceError(Exception):
    """Any of the errors above."""


class OptionError(SourceError):
    """An option or the schema cannot be used; the text says what can."""


class StoreUnreadable(SourceError):
    """A path is no readable store directory and no readable folder of commit-log files."""


class DataLost(SourceError):
    """Messages of the query were removed or cut off, or never existed."""

    def __init__(self, what: str) -> None:
        """what: the loss, as a clause; the remedy is added."""
        self.what = what
        super().__init__(
            f"{what}. Rows of this query are gone; set failOnDataLoss to false to read the rows "
            "that are left"
        )


class JobFailed(SourceError):
    """A job could not begin, or could not end."""

    def __init__(self, cause: str, remedy: str) -> None:
        """Keep both: the command line prints them as two sentences."""
        self.cause = cause
        self.remedy = remedy
        super().__init__(f"{cause}; {remedy}")
