"""Errors that the caller can fix, and the parameter to change."""


class ParameterError(ValueError):
    """An error about the value of one parameter; `parameter` is its name in Python."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class RunWarning(UserWarning):
    """What a user of a run should know although it stops nothing."""


class MissingResourceError(ParameterError, LookupError):
    """A required object was not passed."""
