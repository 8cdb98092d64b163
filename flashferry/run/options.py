"""How a run is to be done: by which policy, and where our server listens."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.transports.choice import NotServed


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is to be done.

    Attributes:
        verb: `stage`, `probe` or `check`, for the journal.
        policy: How it goes about its devices.
        server: Where our server listens.
        to_null: Whether devices copy to `null:`, which writes no flash: a speed test.
        sample_interval_s: How often our server asks the kernel about each transfer; 0.05 to 60.
        host_keys: Folder of our SSH server's host keys, or None: below the state folder.
        not_served: What the depot does not serve, where one is used; None: our own server serves all that is needed.
    """

    verb: str = "stage"
    policy: StagePolicy = field(default_factory=StagePolicy)
    server: ServerPlace = field(default_factory=ServerPlace)
    to_null: bool = False
    sample_interval_s: float = 1.0
    host_keys: Path | None = None
    not_served: NotServed | None = None
