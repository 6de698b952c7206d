"""The errors of the Spark source.

    SourceError
    +-- OptionError       an option that does not exist, has a wrong value, or is for another mode
    +-- StoreUnreadable   a path without a store or a log
    +-- DataLost          rows of the query are gone; failOnDataLoss=false continues without them
    +-- JobFailed         a job over a whole log cannot begin, or cannot end

Spark shows the text within a traceback, so each text says what to do. Calls over the wire raise
`client.errors.ClientError`, whose remedies name options here (`in_words_of_spark`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from wakelog.client.errors import (
    CHECK_NO_HOST,
    GIVE_SIGNER,
    GIVE_TLS,
    NAME_PEM,
    NO_QUEUE,
    OTHER_GROUP,
    ClientError,
    in_words,
)

WORDS: Final = {
    NAME_PEM: "Name readable PEM files by the options tls.client.trustCertPath and certPath",
    GIVE_SIGNER: (
        "give its signer by the option tls.client.trustCertPath, or set tls.client.authServer to "
        "false"
    ),
    CHECK_NO_HOST: "set the option tls.client.checkHost to false",
    GIVE_TLS: (
        "set the option tls.enable to true, and tls.client.certPath where it wants a certificate"
    ),
    OTHER_GROUP: "name another group by the option consumerGroup",
    NO_QUEUE: "Write no column queueId",
}
"""By what a remedy of the client says, what it says to users of Spark."""


@contextmanager
def in_words_of_spark() -> Iterator[None]:
    """Have the client's errors in the block name Spark's options."""
    try:
        yield
    except ClientError as error:
        error.remedy = in_words(error.remedy, WORDS)
        error.args = (error.cause, error.remedy)
        raise


READ_THE_REST: Final = "set failOnDataLoss to false to read the rows that are left"


class SourceError(Exception):
    """Any of the errors above."""


class OptionError(SourceError):
    """An option or the schema cannot be used; the text says what can."""


class StoreUnreadable(SourceError):
    """A path is no readable store directory and no readable folder of commit-log files."""


class DataLost(SourceError):
    """Messages of the query were removed or cut off, or never existed."""

    def __init__(self, what: str, remedy: str = READ_THE_REST) -> None:
        """what: the loss, as a clause. remedy: what the user can do, as one."""
        self.what = what
        super().__init__(f"{what}. Rows of this query are gone; {remedy}")


class JobFailed(SourceError):
    """A job could not begin, or could not end."""

    def __init__(self, cause: str, remedy: str) -> None:
        """Keep both: the command line prints them as two sentences."""
        self.cause = cause
        self.remedy = remedy
        super().__init__(f"{cause}; {remedy}")
