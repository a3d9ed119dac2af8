"""Errors that the caller can fix; they name the parameter to change."""


class ParameterError(ValueError):
    """An error about the value of one parameter; `parameter` is its name in Python."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class RunWarning(UserWarning):
    """A warning about a run that does not stop the command."""


class MissingResourceError(ParameterError, LookupError):
    """A required object was not passed."""
