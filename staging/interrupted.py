"""The operator's wish to stop, as an error that ends a device's way at the next step."""

from __future__ import annotations

from tasks.errors import Stopped


class Interrupted(Stopped):
    """The operator stopped the run before this step."""
