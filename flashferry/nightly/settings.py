"""Define what a night does and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct
from msgspec import field as struct_field

from flashferry.core.errors import ConfigInvalid
from flashferry.nightly.night import StepName


class NightLimits(Struct, frozen=True, kw_only=True):
    """Time limits in seconds.

    Attributes:
        whole_s: The night without its clean-up.
        import_s: Importing and starting the lab.
        start_s: Until all nodes are BOOTED.
        reach_s: Until all routers accept SSH.
        condition_s: Setting and measuring all links.
        product_s: Each step of the product.
        clean_s: The clean-up, independent of the other limits.
        poll_s: Interval between polls of the nodes.
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
    """The login of the lab's routers, passed to the product by environment. Secret None: the user has privilege 15."""

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
"""The steps that a description can leave out."""


class NightWork(Struct, frozen=True, kw_only=True):
    """What a night does.

    Attributes:
        md5: The image's published MD5, or None.
        does: Steps of the product to run; others are skipped.
        copies: Timed copies per router, untuned and tuned each; the trend's statistic assumes 5.
        probe_seconds: Intended duration of a timed copy, 2 to 60.
        transport: The transport of the copies; None: the product chooses.
        options: More options for the product's commands, such as `--port`.
        target_bps: Licensed throughput that a router needs, bit/s; None: its link's rate.
        capture_node: The router of which one tuned copy is captured, or None.

    Raises:
        ConfigInvalid: No copies, or a step that is not the product's.
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
        """Check copies and steps."""
        if self.copies < 1:
            raise ConfigInvalid(f"copies: expected at least 1, found {self.copies}", hint="Give 5, or leave it out")
        if unknown := [step.value for step in self.does if step not in PRODUCT_STEPS]:
            raise ConfigInvalid(
                f"steps: expected some of {', '.join(PRODUCT_STEPS)}, found {unknown[0]}",
                hint="The other steps of a night are always done",
            )


class NightSettings(NightWork, frozen=True, kw_only=True):
    """What a night does, on which routers, and its time limits.

    Attributes:
        inventory_data: Inventory data for all routers: `{"clear_text": false}`.
    """

    login: NodeLogin
    inventory_data: Mapping[str, object] = struct_field(default_factory=dict)
    limits: NightLimits = struct_field(default_factory=NightLimits)
