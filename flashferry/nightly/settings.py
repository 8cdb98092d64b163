"""What a night does, and how long it may take: what its description (`nightly.yaml`) comes to for the flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.night import StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class NightLimits:
    """Seconds that a night and its steps may take.

    Attributes:
        whole_s: The night without its clean-up; a lab outlives it by `clean_s` and a margin at most.
        import_s: Importing and starting the lab.
        start_s: Until all nodes are BOOTED.
        reach_s: Until SSH answers on all of them.
        condition_s: Setting and measuring all links.
        product_s: Each step of the product: one check, one probe of all copies, one stage.
        clean_s: The clean-up's own clock, which no other limit shortens.
        poll_s: Between two looks at the nodes.
    """

    whole_s: float = 5400.0
    import_s: float = 300.0
    start_s: float = 1200.0
    reach_s: float = 600.0
    condition_s: float = 300.0
    product_s: float = 2400.0
    clean_s: float = 300.0
    poll_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLogin:
    """The login of the lab's routers; given to the product by its environment, never on a command line.

    Attributes:
        username: The user.
        password: Its password.
        secret: The enable secret; None: the user has privilege 15.
    """

    username: str
    password: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)


PRODUCT_STEPS = (
    StepName.CHECK,
    StepName.PROBE,
    StepName.STAGE,
    StepName.KILL,
    StepName.RESUME,
    StepName.RECOVER,
)
"""What a night may leave out by its description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightWork:
    """What a night does.

    Attributes:
        image: The image that is probed and staged.
        md5: Its published MD5, or None.
        does: The product's steps that are done; the others are skipped.
        copies: Timed copies per router, untuned and tuned each; 5 is what the trend's statistic was made for.
        probe_seconds: What a timed copy should take, 2 to 60; its size follows.
        transport: By which devices copy; None: the product's own choice.
        options: Further options for verbs of the product that serve: `--port`, say.
        target_bps: What a router's licence must let it forward for its copies to be judged, bit/s; None: what its
            link carries, or, where that has no limit, whatever it is.
        capture_node: The router whose tuned copy is captured, or None.

    Raises:
        ConfigInvalid: No copies, or a step that is no product's.
    """

    image: Path
    md5: str | None = None
    does: tuple[StepName, ...] = PRODUCT_STEPS
    copies: int = 5
    probe_seconds: float = 5.0
    transport: str | None = None
    options: tuple[str, ...] = ()
    target_bps: int | None = None
    capture_node: str | None = None

    def __post_init__(self) -> None:
        """Check what the types cannot."""
        if self.copies < 1:
            raise ConfigInvalid(f"copies: expected at least 1, found {self.copies}", hint="Give 5, or leave it out")
        if unknown := [step.value for step in self.does if step not in PRODUCT_STEPS]:
            raise ConfigInvalid(
                f"steps: expected some of {', '.join(PRODUCT_STEPS)}, found {unknown[0]}",
                hint="The other steps of a night are always done",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightSettings(NightWork):
    """What the flow of a night goes by: what it does, on which routers, and how long that may take.

    Attributes:
        login: The routers' login.
        inventory_data: Further data of all routers in the product's inventory: `{"clear_text": false}`.
        limits: How long all this may take.
    """

    login: NodeLogin
    inventory_data: Mapping[str, object] = field(default_factory=dict)
    limits: NightLimits = field(default_factory=NightLimits)
