"""Where a run is killed: at every step's boundary, in mid-step, and around what the journal writes. Pure.

The points stand in the order in which a run that meets no trouble passes them. Each says how far the device is by
then: whether the journal holds it, and which of our lines are in force: the two that tune, and the mark in front of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW, SACK, MARK, APPLET = "window-size", "selective-ack", "mark", "applet"
MEMBERS, PACKAGES = "members", "packages"
"""What some rows need beside `APPLET`: a box that hands the image on, and one that adds it to its packages."""

ALL = frozenset({WINDOW, SACK, MARK})
ONLY_MARK = frozenset({MARK})
NEITHER: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEvent:
    """When a step's event is told, for the n-th time."""

    step: str
    status: str
    nth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWrite:
    """At the n-th text of a step that goes to the device and fits a pattern: before it is sent, or after.

    Before it, all that was sent earlier is answered: the device stands still at a place that is known.
    """

    step: str
    pattern: str
    nth: int = 1
    after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AtFlash:
    """When so large a share of the image is on the device's flash, or on that of the first other member."""

    share: float
    on_member: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AtJournal:
    """At a call of the journal: behind it, or right before it is committed."""

    call: str
    before_commit: bool = False


Trigger = AtEvent | AtWrite | AtFlash | AtJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A place where the run is killed.

    Attributes:
        name: Short and unique.
        says: For the table's row.
        trigger: What it is recognized by; None: the run is not killed.
        leased: Whether the journal holds the device by then.
        ours: Which of our lines are in force by then.
        needs: What only some columns have: an applet with the device, other members, or packages; empty for all.
    """

    name: str
    says: str
    trigger: Trigger | None
    leased: bool = False
    ours: frozenset[str] = NEITHER
    needs: str = ""


def _in(name: str, says: str, trigger: Trigger, ours: frozenset[str] | None = None) -> KillPoint:
    """Return a kill point; None for lines of ours means that the journal does not hold the device."""
    return KillPoint(name=name, says=says, trigger=trigger, leased=ours is not None, ours=ours or NEITHER)


def _at(step: str, status: str, ours: frozenset[str] | None = None) -> KillPoint:
    return _in(f"{step}.{status}", f"{step} {status}", AtEvent(step=step, status=status), ours)


def _arming(name: str, says: str, trigger: Trigger) -> KillPoint:
    """Return a kill point while an applet is armed: the journal holds the device, and no line is set yet."""
    return KillPoint(name=name, says=says, trigger=trigger, leased=True, needs=APPLET)


def _behind(needs: str, name: str, says: str, trigger: Trigger) -> KillPoint:
    """Return a kill point behind the restore: the device is as it was, and nobody's."""
    return KillPoint(name=name, says=says, trigger=trigger, needs=needs)


def _handing_on(name: str, says: str, trigger: Trigger) -> KillPoint:
    return _behind(MEMBERS, f"distribute.{name}", f"distribute{says}", trigger)


def _adding(name: str, says: str, trigger: Trigger) -> KillPoint:
    return _behind(PACKAGES, f"add.{name}", f"add{says}", trigger)


def _write(step: str, pattern: str, *, nth: int = 1, after: bool = False) -> AtWrite:
    return AtWrite(step=step, pattern=pattern, nth=nth, after=after)


NO_KILL = KillPoint(name="none", says="not killed", trigger=None)
_OURS = "^(no )?ip (tcp|ssh|scp)"
POINTS: tuple[KillPoint, ...] = (
    _at("check", "started"),
    _in("check.mid", "check: before its `dir`", _write("check", "^dir ")),
    _at("check", "done"),
    _at("snapshot", "started"),
    _in("snapshot.mid", "snapshot: before startup is read", _write("snapshot", "^show startup")),
    _at("snapshot", "done"),
    _in(
        "entry.commit",
        "journal: before the entry is committed",
        AtJournal(call="acquire_lease", before_commit=True),
        NEITHER,
    ),
    _in("entry.kept", "journal: the entry is on disk", AtJournal(call="acquire_lease"), NEITHER),
    _arming("dead-man.started", "dead-man started", AtEvent(step="dead-man", status="started")),
    _arming("dead-man.body", "dead-man: the applet has a head and no timer", _write("dead-man", "^event timer")),
    _arming("dead-man.last", "dead-man: before the applet's last action", _write("dead-man", "^action [0-9]+ syslog")),
    _arming("dead-man.proof", "dead-man: it counts, before it is seen listed", _write("dead-man", "^show event")),
    _arming("dead-man.done", "dead-man done", AtEvent(step="dead-man", status="done")),
    _at("tune", "started", NEITHER),
    _in("tune.mode", "tune: the mark is left", _write("tune", _OURS), frozenset({MARK})),
    _in("tune.between", "tune: between our two lines", _write("tune", _OURS, nth=2), frozenset({MARK, WINDOW})),
    _in("tune.leaving", "tune: both lines in, before `end`", _write("tune", "^end"), ALL),
    _in("tune.reread", "tune: before the lines are re-read", _write("tune", "^show run"), ALL),
    _at("tune", "done", ALL),
    _at("pull", "started", ALL),
    _in(
        "pull.asked",
        "pull: `copy` sent, its question is open (a push: the device's server waits, `dir` of its target sent)",
        _write("pull", "^(copy|dir) ", after=True),
        ALL,
    ),
    _in("pull.quarter", "pull: a quarter is on flash", AtFlash(share=0.25), ALL),
    _in("pull.most", "pull: three quarters are on flash", AtFlash(share=0.75), ALL),
    _at("pull", "done", ALL),
    _at("verify", "started", ALL),
    _in("verify.asked", "verify: `verify /md5` sent", _write("verify", "^verify ", after=True), ALL),
    _at("verify", "done", ALL),
    _at("restore", "started", ALL),
    _in("restore.mode", "restore: in configuration mode", _write("restore", _OURS), ALL),
    _in("restore.between", "restore: between the two lines", _write("restore", _OURS, nth=2), frozenset({SACK, MARK})),
    _in("restore.leaving", "restore: both undone, before `end`", _write("restore", "^end"), ONLY_MARK),
    _in(
        "restore.proof",
        "restore: before the lines are proven gone",
        _write("restore", "^show run", nth=2),
        frozenset({MARK}),
    ),
    _in("restore.startup", "restore: before startup is read", _write("restore", "^show startup"), ONLY_MARK),
    _in(
        "restore.mark",
        "restore: in the last session, the mark is left",
        _write("restore", "^no alias"),
        frozenset({MARK}),
    ),
    _in("restore.last", "restore: all undone, before the last `end`", _write("restore", "^end", nth=2), NEITHER),
    _in("restore.again", "restore: before the second look", _write("restore", "^show run", nth=3), NEITHER),
    _at("restore", "done", NEITHER),
    _in("lease.ended", "journal: the lease has ended", AtJournal(call="release")),
    _handing_on("started", " started", AtEvent(step="distribute", status="started")),
    _handing_on("asked", ": `copy` to a member sent, its question is open", _write("distribute", "^copy ", after=True)),
    _handing_on("half", ": half of it is on the first member", AtFlash(share=0.5, on_member=True)),
    _handing_on("hash", ": its hash on the first member is asked for", _write("distribute", "^verify ", after=True)),
    _handing_on("between", ": one member is proven", AtEvent(step="distribute", status="note", nth=2)),
    _handing_on("again", ": before the members are checked again", _write("distribute", "^show switch", nth=2)),
    _handing_on("done", " done", AtEvent(step="distribute", status="done")),
    _adding("started", " started", AtEvent(step="add", status="started")),
    _adding("before", ": right before `install add`", _write("add", "^install add")),
    _adding("sent", ": `install add` sent", _write("add", "^install add", after=True)),
    _adding("going", ": the device takes the image apart", AtEvent(step="add", status="note")),
    _adding("behind", ": after `install add`, before the tables are re-read", _write("add", "^show install", nth=2)),
    _adding("done", " done", AtEvent(step="add", status="done")),
    _in("record.kept", "journal: the record is on disk", AtJournal(call="record")),
)
ALL_POINTS = (NO_KILL, *POINTS)
BY_NAME = {point.name: point for point in ALL_POINTS}
_ORDER = {point.name: place for place, point in enumerate(POINTS)}


def is_behind(point: KillPoint, name: str) -> bool:
    """Return whether a point comes later than the one named; not being killed comes later than all."""
    return point.trigger is None or _ORDER[point.name] > _ORDER[name]


def between(first: str, last: str) -> frozenset[str]:
    """Return the names of the points from one to another, both included."""
    return frozenset(name for name, place in _ORDER.items() if _ORDER[first] <= place <= _ORDER[last])
