"""Imported by a relative import."""


def work():
    """Done."""
