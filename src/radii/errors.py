"""Errors that the caller can put right, and which parameter would do it."""


class ParameterError(ValueError):
    """An error that another value of one parameter would put right: `parameter` is its name in Python."""

    def __init__(self, message: str, parameter: str = "") -> None:
        super().__init__(message)
        self.parameter = parameter


class RunWarning(UserWarning):
    """What a user of a run should know although it stops nothing."""


class MissingResourceError(ParameterError, LookupError):
    """An object that has to be handed over is missing."""
