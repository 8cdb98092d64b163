"""The lines that widen an SSH channel: which a device takes, and that whatever was there comes back exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS, IOS_XE
from flashferry.devices.platforms.platform import Platform
from flashferry.devices.session import DeviceSession
from flashferry.transports import TRANSPORTS, transport_named
from tasks import restore as restore_step
from tasks import tune as tune_step
from tasks.restore import restore_device
from tasks.restore_plan import LineState, line_state, plan_restore
from tasks.snapshot import Snapshot, take_snapshot
from tasks.tcp_config import Change, TcpLines, TunePlan, is_ours_to_type, may_be_shown, plan_tune, tcp_lines
from tasks.tune import apply_plan, without_scaling

WANTED = 1_250_000
BULK, WINDOW = "ip ssh bulk-mode", "ip ssh window-size"
INVALID = "                       ^\n% Invalid input detected at '^' marker."
WARNING = (
    "\n%% Warning: This cli may have impact on CPU. So,use only for SCP\n"
    "Please configure ip tcp window-size<> with same value,for this CLI to work\n"
)
SCP = transport_named("scp")


@dataclass(frozen=True, kw_only=True)
class Release:
    """How a release treats the lines.

    Attributes:
        bulk: Whether it knows bulk mode.
        largest_window: Largest value of the other line; 0 where it does not know that.
        is_on: Whether bulk mode is on by default.
        shows_default: Whether the default stands in the configuration, as 17.12 was seen to have it.
        shows_off: Whether bulk mode that is off by `no` is a line; no capture tells.
        largest_bulk: Largest value that bulk mode takes.
    """

    bulk: bool = True
    largest_window: int = 131_072
    is_on: bool = False
    shows_default: bool = True
    shows_off: bool = False
    largest_bulk: int = 1_073_741_824


RELEASES = {
    "16.3": Release(bulk=False, largest_window=0),
    "16.9": Release(bulk=False),
    "16.9, 65536 at most": Release(bulk=False, largest_window=65_536),
    "16.9, 32768 at most": Release(bulk=False, largest_window=32_768),
    "17.6": Release(),
    "17.12": Release(is_on=True),
    "17.12 that shows `no`": Release(is_on=True, shows_off=True),
    "17.12 that hides its default": Release(is_on=True, shows_default=False, shows_off=True),
    "17.12 with a limit": Release(is_on=True, largest_bulk=300_000),
}


class Router:
    """Takes the lines as its release does, and shows them."""

    name = "r1"
    platform = IOS_XE

    def __init__(self, release: Release, *lines: str) -> None:
        self.release = release
        self.bulk: int | None = 131_072 if release.bulk and release.is_on else None
        self.other: dict[str, str] = {}
        self.sent: list[str] = []
        self.startup = ("version 17.12", "hostname r1", "ip http server", *["!"] * 8, "end")
        self.configure(lines)
        self.sent.clear()

    def configure(self, lines: tuple[str, ...], *, unless: Callable[[Callable[[str], str]], bool] | None = None) -> str:
        if unless is not None and unless(lambda command: self.running_config()):
            return ""
        out = []
        for line in lines:
            self.sent.append(line)
            out += [f"r1(config)#{line}", self._take(line)]
        return "\n".join(out)

    def _take(self, line: str) -> str:
        words, is_off = line.removeprefix("no "), line.startswith("no ")
        value = words.split()[-1]
        if words.startswith(BULK):
            if not self.release.bulk or (value.isdigit() and int(value) > self.release.largest_bulk):
                return INVALID
            self.bulk = None if is_off else int(value) if value.isdigit() else 131_072
            return ""
        if words.startswith(WINDOW) and not is_off and int(value) > self.release.largest_window:
            return INVALID
        if words.startswith(WINDOW) and not self.release.largest_window:
            return INVALID
        key = words if words.startswith("alias") else " ".join(words.split()[:3])
        self.other.pop(key, None)
        if not is_off and line != f"{WINDOW} 8192":
            self.other[key] = line
        return WARNING if words.startswith(WINDOW) and not is_off else ""

    @property
    def shown(self) -> list[str]:
        return [*self._bulk_shown(), *sorted(self.other.values())]

    def _bulk_shown(self) -> list[str]:
        release = self.release
        if self.bulk is None:
            return [f"no {BULK}"] if release.is_on and release.shows_off else []
        is_default = release.is_on and self.bulk == 131_072
        return [] if is_default and not release.shows_default else [f"{BULK} {self.bulk}"]

    def running_config(self) -> str:
        return "\n".join(["version 17.12", "hostname r1", *["!"] * 8, *self.shown, "end"])

    def startup_config(self) -> str:
        return "\n".join(self.startup)

    def present(self) -> TcpLines:
        return tcp_lines(self.running_config(), self.platform)

    @property
    def session(self) -> DeviceSession:
        return cast("DeviceSession", self)


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    for step in (tune_step, restore_step):
        monkeypatch.setattr(step.time, "sleep", lambda seconds: None)


def planned(present: TcpLines, window_bytes: int | None = WANTED, platform: Platform = IOS_XE, **how) -> TunePlan:
    return plan_tune(
        present, **({"transport": SCP, "may_back_off": True} | how), platform=platform, window_bytes=window_bytes
    )


def lines(*text: str) -> TcpLines:
    return TcpLines(lines=text)


def channel_of(plan: TunePlan) -> list[str]:
    return [one.ours for one in (*plan.changes, *plan.channel) if one.is_channel]


@pytest.mark.parametrize(
    ("present", "tried"),
    [
        ((), [f"{BULK} 1250000", f"{WINDOW} 131072", f"{WINDOW} 65536"]),
        ((f"{WINDOW} 65536",), [f"{BULK} 1250000", f"{WINDOW} 131072"]),
        ((f"{BULK} 131072",), [f"{BULK} {value}" for value in (1_250_000, 625_000, 312_500, 156_250)]),
        ((f"no {BULK}",), [f"{BULK} {value}" for value in (1_250_000, 625_000, 312_500, 156_250, 131_072)]),
        ((f"{BULK} 2000000",), []),
        ((f"{BULK} 1250000",), []),
        ((BULK,), [f"{BULK} {value}" for value in (1_250_000, 625_000, 312_500, 156_250)]),
    ],
)
def test_what_is_tried(present, tried):
    """Bulk mode first; what stands there already tells that the release knows it, and enough is left alone."""
    assert channel_of(planned(lines(*present))) == tried


@pytest.mark.parametrize(("wanted", "first"), [(65_536, 131_072), (131_072, 131_072), (1_073_741_823, 1_073_741_823)])
def test_values_stay_in_the_range_that_was_seen(wanted, first):
    """No less than the default of bulk mode, which is what was seen to be taken."""
    assert channel_of(planned(lines(), wanted))[0] == f"{BULK} {first}"


@pytest.mark.parametrize("transport", [one for one in TRANSPORTS if one.name not in {"scp", "sftp"}])
def test_only_over_ssh(transport):
    """Other protocols have no window inside TCP's, and leave the lines alone."""
    assert channel_of(planned(lines(f"{BULK} 131072"), transport=transport)) == []


def test_nothing_is_tried_where_nothing_is_known_or_nothing_is_tuned():
    """IOS 15 has neither line by its own help; and `--no-tune` means both windows."""
    assert channel_of(planned(lines(), platform=IOS)) == []
    assert channel_of(planned(lines(), None)) == []


@pytest.mark.parametrize(
    ("release", "taken"),
    [
        ("16.3", []),
        ("16.9", [f"{WINDOW} 131072"]),
        ("16.9, 65536 at most", [f"{WINDOW} 65536"]),
        ("16.9, 32768 at most", []),
        ("17.6", [f"{BULK} 1250000"]),
        ("17.12", [f"{BULK} 1250000"]),
        ("17.12 that hides its default", [f"{BULK} 1250000"]),
        ("17.12 with a limit", [f"{BULK} 156250"]),
    ],
)
def test_each_release_gets_what_it_takes(release, taken):
    """One line, both or none refused: the rest is set all the same, and what is sent was remembered before."""
    router = Router(RELEASES[release])
    before = router.shown
    remembered: list[tuple[Change, ...]] = []
    known_when_sent: list[bool] = []
    take = router._take
    router._take = lambda line: known_when_sent.append(any(line == one.ours for one in remembered[-1])) or take(line)  # type: ignore[method-assign]
    plan = planned(router.present())
    remembered.append(plan.changes)
    report = apply_plan(router.session, plan, remember=remembered.append)
    assert [line for line in report.running.lines if line.startswith("ip ssh") and line not in before] == taken
    assert report.running.window_bytes == WANTED
    assert report.channel_as_before is (taken == [])
    assert all(known_when_sent)
    assert len(report.refused) == sum(line.startswith("ip ssh") for line in router.sent) - len(taken)


def test_a_window_that_was_asked_for_stays_whatever_becomes_of_the_channels():
    """The operator's value is TCP's: the channel's may be refused, that one may not."""
    router = Router(RELEASES["16.3"])
    report = apply_plan(router.session, planned(router.present(), may_back_off=False))
    assert report.running.window_bytes == WANTED
    assert len(report.refused) == 3


STARTS = st.lists(
    st.sampled_from(
        [
            f"{BULK} 131072",
            f"{BULK} 2000000",
            f"{BULK} 262144",
            f"{BULK} 1250000",
            f"no {BULK}",
            f"{WINDOW} 65536",
            f"{WINDOW} 8192",
            "ip tcp window-size 65535",
            "ip tcp selective-ack",
            "ip ssh source-interface Gi1",
        ]
    ),
    max_size=4,
)


@settings(deadline=None)
@given(release=st.sampled_from(sorted(RELEASES)), start=STARTS, window_bytes=st.sampled_from([65_536, 300_000, WANTED]))
def test_whatever_was_there_comes_back_exactly(release, start, window_bytes):
    """The default's own line, a `no` of it, somebody's value, nothing: tuned, put back, equal; and proven to be."""
    router = Router(RELEASES[release], *start)
    before, snapshot = router.shown, taken(router)
    held: list[tuple[Change, ...]] = [()]
    plan = planned(router.present(), window_bytes, source_interface="Gi2")
    held.append(plan.changes)
    apply_plan(router.session, plan, before=snapshot, remember=held.append)
    report = restore_device(router.session, before=snapshot, changes=held[-1])
    assert router.shown == before
    assert report.is_proven
    assert all(map(is_ours_to_type, held[-1]))


@settings(deadline=None)
@given(release=st.sampled_from(sorted(RELEASES)), start=STARTS, sent=st.integers(0, 5))
def test_a_crash_between_any_two_lines_leaves_nothing(release, start, sent):
    """Nobody saw what became of the lines that were sent; those of the journal are undone, whichever they are."""
    router = Router(RELEASES[release], *start)
    before, snapshot = router.shown, taken(router)
    plan = planned(router.present())
    router.configure(plan.commands[:sent])
    report = restore_device(router.session, before=snapshot, changes=plan.changes)
    assert router.shown == before
    assert report.is_proven


def taken(router: Router) -> Snapshot:
    return take_snapshot(router.session)


@pytest.mark.parametrize(
    ("before", "now", "stands"),
    [
        (f"{BULK} 131072", f"{BULK} 131072", LineState.BEFORE),
        (f"{BULK} 131072", f"{BULK} 1250000", LineState.OURS),
        (f"{BULK} 131072", f"{BULK} 1249280", LineState.OURS),
        (f"{BULK} 131072", None, LineState.FOREIGN),
        (f"{BULK} 131072", f"no {BULK}", LineState.FOREIGN),
        (f"{BULK} 131072", f"{BULK} 4000000", LineState.FOREIGN),
        (None, f"no {BULK}", LineState.OURS),
        (f"no {BULK}", f"no {BULK}", LineState.BEFORE),
        (f"no {BULK}", f"{BULK} 4000000", LineState.FOREIGN),
    ],
)
def test_whose_line_it_is(before, now, stands):
    """Somebody who switches bulk mode off meanwhile, as a sick platform needs it, is left alone and told."""
    ours = f"{BULK} 1250000"
    change = Change(keyword="ssh bulk-mode", before=before, ours=ours, shown=ours)
    assert line_state(change, now) is stands


def test_a_switched_off_default_comes_back_as_the_default():
    """Where `no` of our line shows as a line although nothing was there, the value of the release is typed."""
    change = Change(keyword="ssh bulk-mode", before=None, ours=f"{BULK} 1250000", shown=f"{BULK} 1250000")
    assert plan_restore((change,), lines(f"{BULK} 1250000")).commands == (f"no {BULK}",)
    assert plan_restore((change,), lines(f"no {BULK}")).commands == (f"{BULK} 131072",)


def test_a_device_that_failed_gets_its_own_channel_back_with_the_smaller_window():
    """Bulk mode breaks sessions on some: what was there before us is in force, and proven so before it is forgotten."""
    router = Router(RELEASES["17.12"])
    plan = planned(router.present())
    held = [plan.changes]
    apply_plan(router.session, plan, remember=held.append)
    shown: list[list[str]] = []

    def remember(changes: tuple[Change, ...]) -> None:
        shown.append(router.shown)
        held.append(changes)

    without_scaling(router.session, held[-1], remember=remember)
    assert shown[0] == [f"{BULK} 131072", "ip tcp selective-ack"]
    assert router.shown == [f"{BULK} 131072", "ip tcp selective-ack", "ip tcp window-size 65535"]
    assert not any(one.is_channel for one in held[-1])
    channel_alone = TunePlan(changes=tuple(one for one in plan.changes if one.is_channel), may_back_off=True)
    assert cast("TunePlan", channel_alone.unscaled()).changes == ()
    assert replace(channel_alone, may_back_off=False).unscaled() is None


def test_the_lines_are_told_whole():
    """They hold no secret, bare and switched off as well; other lines of SSH may hold a key."""
    for line in (
        BULK,
        f"no {BULK}",
        f"{WINDOW} 65536",
        "ip ssh source-interface Gi1",
        "ip http client source-interface Gi1",
    ):
        assert may_be_shown(line), line
    assert not may_be_shown("ip ssh pubkey-chain")
