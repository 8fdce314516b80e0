"""Warnings that fastsbl gives."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before it reached the accuracy asked for."""


class ConditioningWarning(UserWarning):
    """The problem asks for more digits than floating point has."""
