"""Errors of deployments and of commands: each says the cause and what the user can do.

    DeploymentError
    |-- NotPossible        what was asked for cannot be: flags, broker.conf or --set
    |-- PreflightRefused   something on this machine stands in the way; nothing was started
    |-- DeploymentFailed   a part did not start, or could not go on
    `-- CommandFailed      a command found something wrong, or nothing came of it

The command line prints one line of each, cause and remedy. Errors of the folders below
(StoreLocked, PortUnavailable, ...) go through as they are.
"""


class DeploymentError(Exception):
    """Any of the errors here; raise a leaf.

    Attributes:
        cause: what is wrong, a clause that starts in lower case and has no full stop.
        remedy: what to do about it, a sentence.
    """

    def __init__(self, cause: str, remedy: str) -> None:
        assert type(self) is not DeploymentError
        super().__init__(cause, remedy)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        """Put cause and remedy into one line."""
        return f"{self.cause}. {self.remedy}"


class NotPossible(DeploymentError):
    """Flags, file and settings contradict each other or ask for what cannot be."""


class PreflightRefused(DeploymentError):
    """A port, a directory, a disk or an address is not as the plan needs it."""


class DeploymentFailed(DeploymentError):
    """A part did not start, or one that ran has ended and does not come back."""


class CommandFailed(DeploymentError):
    """What a command was to check is not as it should be, or what it asked for was not done."""
