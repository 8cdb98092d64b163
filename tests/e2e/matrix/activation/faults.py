"""What goes wrong beside the kill of an activation: the columns of its two tables. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flashferry.model.activation import ActivationOutcome
from tests.e2e.matrix.activation.points import Mode

PORT = "Loopback77"
COLLEAGUES_LINE = "snmp-server location rack 7"
LINE = {"other_user_configures": [COLLEAGUES_LINE]}
ORDER_LINE = "boot system bootflash:of-a-colleague.SPA.bin"
SAVE = {"other_user_saves": True}
SHORT_MINUTE_S, LONG_MINUTE_S = 0.8, 10.0
"""How long a minute of the device's timer lasts: its thirty are over in 24 seconds, or in longer than a cell takes."""

_ROLLING = frozenset({"rolling.kept", "rolling.away"})
_COMMITTING = frozenset({"committing.kept", "committing.sent"})
_BACK = frozenset({"settling"})
_TAKING = frozenset({"taking.kept", "taking.typed"})
_RESTARTED = frozenset({"ordering.typed", "reloading.kept", "reloading.asked", "away", "settling"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        name: Short, and unique in its mode.
        says: For the table's legend.
        mode: How its devices boot.
        ends_in: What a device ends in that was restarted, or not killed.
        never: Points that a run does not pass.
        switches: Faults of the stand-in, from the beginning.
        strikes: What is switched or happens at `strikes_at`, or at the kill where that comes first.
        strikes_at: The point at which it does.
        mended: What somebody does behind a recovery that could not bring the device to an end.
        mended_behind: What must have happened before somebody does it, the beginning of an entry of `World.happened`.
        must_tell: What the lab must have seen of it, the beginning of an entry of `World.happened`.
        tells_before_restart: Whether it comes about before a restart; else only a restarted device meets it.
        minute_s: How long a minute of the device's timer lasts.
        patience_s: How long a recovery waits until somebody has mended it.
        line: What a colleague enters, where one does.
        is_held: Whether it takes a colleague to have the device brought to an end, also where the run is not killed.
        is_not_activated: Whether the device never takes the command.
        stays_away: Whether the device does not come back.
        kills_recovery: Whether the first recovery is killed too, where it enters a phase.
        alone: Whether nobody looks at the device before its own timer has brought the old image back.
    """

    name: str
    says: str
    mode: Mode
    ends_in: ActivationOutcome
    never: frozenset[str]
    switches: Mapping[str, Any] = field(default_factory=dict)
    strikes: Mapping[str, Any] = field(default_factory=dict)
    strikes_at: str = "intended"
    mended: Mapping[str, Any] = field(default_factory=dict)
    mended_behind: str = "stays at ROMMON"
    must_tell: str | None = None
    tells_before_restart: bool = False
    minute_s: float = LONG_MINUTE_S
    patience_s: float = 90.0
    line: str = COLLEAGUES_LINE
    is_held: bool = False
    is_not_activated: bool = False
    stays_away: bool = False
    kills_recovery: bool = False
    alone: bool = False

    @property
    def rolls_back(self) -> bool:
        """Return whether the device's own timer brings the old image back."""
        return self.ends_in is ActivationOutcome.ROLLED_BACK or self.alone


def _install(name: str, says: str, ends_in: ActivationOutcome, never: frozenset[str], **more: Any) -> Fault:
    return Fault(name=name, says=says, mode=Mode.INSTALL, ends_in=ends_in, never=never, **more)


def _bundle(name: str, says: str, ends_in: ActivationOutcome, never: frozenset[str], **more: Any) -> Fault:
    return Fault(name=name, says=says, mode=Mode.BUNDLE, ends_in=ends_in, never=never, **more)


_NOT_TAKEN = _BACK | _COMMITTING | _ROLLING | {"away"}
INSTALL_FAULTS = (
    _install("none", "nothing else goes wrong", ActivationOutcome.COMMITTED, _ROLLING),
    _install(
        "second kill",
        "`recover` is killed too, where it enters a phase: on disk, before its first command",
        ActivationOutcome.COMMITTED,
        _ROLLING | {"none", "ended"},
        kills_recovery=True,
    ),
    _install(
        "old image",
        "the reload comes back with the old image",
        ActivationOutcome.CAME_BACK_OLD,
        _BACK | _COMMITTING | _ROLLING,
        switches={"boots_old_image": True},
        must_tell="boot: 17.15.01a",
    ),
    _install(
        "stays away",
        "the device does not come back; at its console it is brought back after the first recovery",
        ActivationOutcome.COMMITTED,
        _BACK | _COMMITTING | _ROLLING | {"ended"},
        switches={"never_boots": True},
        mended={"never_boots": False, "reboot": 0.5},
        must_tell="stays at ROMMON",
        patience_s=8.0,
        stays_away=True,
    ),
    _install(
        "away too long",
        "the same, and its timer runs out before anyone comes: it starts with the old image",
        ActivationOutcome.CAME_BACK_OLD,
        _BACK | _COMMITTING | _ROLLING | {"ended"},
        switches={"never_boots": True},
        mended={"never_boots": False, "reboot": 0.5},
        mended_behind="timer: ran out",
        must_tell="timer: ran out",
        minute_s=0.4,
        patience_s=8.0,
        stays_away=True,
    ),
    _install(
        "port down",
        "a port stays down after the restart: not committed, and the device's timer brings the old image back",
        ActivationOutcome.ROLLED_BACK,
        _COMMITTING,
        switches={"ports_down_after_boot": (PORT,)},
        must_tell=f"port down: {PORT}",
        minute_s=SHORT_MINUTE_S,
    ),
    _install(
        "refused",
        "the device refuses to activate",
        ActivationOutcome.NOT_ACTIVATED,
        _NOT_TAKEN,
        switches={"install_activate_fails": True},
        must_tell="refused: install_activate fails",
        is_not_activated=True,
    ),
    _install(
        "busy",
        "another install operation is under way when the device is to activate",
        ActivationOutcome.NOT_ACTIVATED,
        _NOT_TAKEN,
        strikes={"install_busy": True},
        must_tell="refused: install_activate, another operation",
        is_not_activated=True,
    ),
    _install(
        "busy at commit",
        "the same from the moment on at which it is back: the timer brings the old image back",
        ActivationOutcome.ROLLED_BACK,
        frozenset(),
        strikes={"install_busy": True},
        strikes_at="settling",
        must_tell="refused: install_commit, another operation",
        minute_s=SHORT_MINUTE_S,
    ),
    _install(
        "foreign line",
        f"a colleague enters `{COLLEAGUES_LINE}` before the device is to activate, and does not save it",
        ActivationOutcome.NOT_ACTIVATED,
        _NOT_TAKEN,
        strikes=LINE,
        must_tell=f"typed by another: {COLLEAGUES_LINE}",
        tells_before_restart=True,
        is_not_activated=True,
    ),
    _install(
        "line, saved",
        "the same, and saves it",
        ActivationOutcome.COMMITTED,
        _ROLLING,
        strikes=LINE | SAVE,
        must_tell="event: other_user_saves",
        tells_before_restart=True,
    ),
    _install(
        "line afterwards",
        "a colleague enters that line when the device is back, and does not save it",
        ActivationOutcome.COMMITTED,
        _ROLLING,
        strikes=LINE,
        strikes_at="settling",
        must_tell=f"typed by another: {COLLEAGUES_LINE}",
        tells_before_restart=True,
    ),
    _install(
        "left alone",
        "the controller is dead for good: the device's own timer brings the old image back, before any recovery",
        ActivationOutcome.CAME_BACK_OLD,
        _ROLLING | {"none"},
        must_tell="timer: ran out",
        minute_s=SHORT_MINUTE_S,
        alone=True,
    ),
)
BUNDLE_FAULTS = (
    _bundle("none", "nothing else goes wrong", ActivationOutcome.ACTIVATED, _TAKING),
    _bundle(
        "second kill",
        "`recover` is killed too, where it enters a phase: on disk, before its first command",
        ActivationOutcome.ACTIVATED,
        _TAKING | {"none", "ended"},
        kills_recovery=True,
    ),
    _bundle(
        "old image",
        "the reload comes back with the old image",
        ActivationOutcome.CAME_BACK_OLD,
        _BACK,
        switches={"boots_old_image": True},
        must_tell="boot: bootflash:isr4300-universalk9.16.06",
    ),
    _bundle(
        "stays away",
        "the device does not come back; at its console it is brought back after the first recovery",
        ActivationOutcome.ACTIVATED,
        _BACK | _TAKING | {"ended"},
        switches={"never_boots": True},
        mended={"never_boots": False, "reboot": 0.5},
        must_tell="stays at ROMMON",
        patience_s=8.0,
        stays_away=True,
    ),
    _bundle(
        "port down",
        "a port stays down after the restart; there is no timer, and the new image runs for good",
        ActivationOutcome.LACKING,
        _TAKING,
        switches={"ports_down_after_boot": (PORT,)},
        must_tell=f"port down: {PORT}",
    ),
    _bundle(
        "refused line",
        "the device refuses the boot line",
        ActivationOutcome.NOT_ACTIVATED,
        _RESTARTED | {"taking.typed"},
        switches={"refuse_config_pattern": r"^boot system .*16\.12"},
        must_tell="refused: boot system",
        is_not_activated=True,
    ),
    _bundle(
        "foreign line",
        f"a colleague enters `{COLLEAGUES_LINE}` before the boot line is typed, and does not save it",
        ActivationOutcome.NOT_ACTIVATED,
        _RESTARTED | {"taking.typed"},
        strikes=LINE,
        strikes_at="ordering.kept",
        must_tell=f"typed by another: {COLLEAGUES_LINE}",
        tells_before_restart=True,
        is_not_activated=True,
    ),
    _bundle(
        "save",
        "a colleague saves while the boot line is typed and not saved",
        ActivationOutcome.ACTIVATED,
        _TAKING,
        strikes=SAVE,
        strikes_at="ordering.typed",
        must_tell="event: other_user_saves",
        tells_before_restart=True,
    ),
    _bundle(
        "line, saved",
        "a colleague enters that line then, and saves; and saves again after a recovery that could not finish it",
        ActivationOutcome.ACTIVATED,
        _TAKING,
        strikes=LINE | SAVE,
        strikes_at="ordering.typed",
        mended=SAVE,
        must_tell="event: other_user_saves",
        tells_before_restart=True,
    ),
    _bundle(
        "line afterwards",
        "a colleague enters that line when the device is back, and saves it after a recovery that could not finish it",
        ActivationOutcome.ACTIVATED,
        _TAKING,
        strikes=LINE,
        mended=SAVE,
        strikes_at="settling",
        must_tell=f"typed by another: {COLLEAGUES_LINE}",
        tells_before_restart=True,
    ),
    _bundle(
        "foreign order",
        f"a colleague enters `{ORDER_LINE}` while ours is typed, and takes it back and saves after a recovery that "
        "could not end it",
        ActivationOutcome.NOT_ACTIVATED,
        frozenset({"reloading.kept", "reloading.asked", "away", "settling", "taking.typed", "ended"}),
        strikes={"other_user_configures": [ORDER_LINE]},
        strikes_at="ordering.typed",
        mended={"other_user_configures": [f"no {ORDER_LINE}"], "other_user_saves": True},
        must_tell=f"typed by another: {ORDER_LINE}",
        tells_before_restart=True,
        line=ORDER_LINE,
        is_held=True,
        is_not_activated=True,
    ),
)
FAULTS = {Mode.INSTALL: INSTALL_FAULTS, Mode.BUNDLE: BUNDLE_FAULTS}
BY_NAME = {mode: {fault.name: fault for fault in faults} for mode, faults in FAULTS.items()}
