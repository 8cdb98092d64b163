"""The one exception of the lab."""

from __future__ import annotations


class LabError(Exception):
    """A lab could not be built, found or asked; the text is a whole sentence that says what to do."""
