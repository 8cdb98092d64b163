"""The live view of a staging run over many devices, fed with made-up events: to look at it, and what it costs.

Nothing is copied and no device is there. `--show` draws in this terminal; otherwise the controller's CPU is measured
with the view drawn on a pseudo-terminal of the same size, and without it.
"""

from __future__ import annotations

import argparse
import os
import pty
import random
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from rich.console import Console

from flashferry.cli.view.live import LiveTable, watching
from flashferry.monitor.events import Event, Progress, TransferEnd, silent
from flashferry.monitor.progress import Expected, Roster

SITES = ("amsterdam", "berlin", "cape town", "delhi", "essen", "florence", "geneva", "hamburg", "istanbul", "jena")
IMAGE_BYTES = 500_000_000
CAP_BYTES_PER_S = 12e6
SITE_COPIES = 8


@dataclass(slots=True)
class Made:
    """A made-up device: what happens to it and when."""

    host: str
    site: str
    luck: random.Random
    acked_bytes: float = 0.0
    speed: float = 1.0
    stall_from: float = 2.0
    plan: list[str] = field(default_factory=lambda: ["check", "snapshot", "tune", "pull", "verify", "restore"])
    until_s: float = 0.0
    step: str = ""


class Night:
    """Five hundred devices at ten sites, eight copies at each at a time, told second by second."""

    def __init__(
        self, devices: int, emit: Callable[[Event], None], faster: float, site_copies: int = SITE_COPIES
    ) -> None:
        self.emit, self.faster, self.now_s = emit, faster, 0.0
        self.site_copies = site_copies
        luck = random.Random(7)
        self.waiting: dict[str, list[Made]] = {site: [] for site in SITES}
        self.running: dict[str, list[Made]] = {site: [] for site in SITES}
        for number in range(devices):
            site = SITES[number % len(SITES)]
            made = Made(host=f"{site.replace(' ', '')[:3]}-branch-{number:03}", site=site, luck=luck)
            made.speed = luck.choice((1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.15))
            made.stall_from = luck.random() if luck.random() < 0.04 else 2.0
            self.waiting[site].append(made)

    def tell(self, made: Made | None, step: str, status: str, text: str = "", **more: object) -> None:
        """Tell an event."""
        host, site = (made.host, made.site) if made else (None, None)
        self.emit(Event(host=host, step=step, status=status, text=text, at_s=self.now_s, site=site, **more))  # type: ignore[arg-type]

    def seconds(self) -> Iterator[float]:
        """Let a second pass, again and again, until all are through."""
        self.tell(None, "run", "started", "20261121-221530-a4e1", run_id="20261121-221530-a4e1")
        self.tell(None, "wave", "started", "2 of 3: all sites", wave=2)
        while any(self.waiting.values()) or any(self.running.values()):
            for site in SITES:
                while self.waiting[site] and len(self.running[site]) < self.site_copies:
                    self.running[site].append(self.waiting[site].pop(0))
                self._site(self.running[site])
            yield self.now_s
            self.now_s += 1

    def _site(self, running: list[Made]) -> None:
        copying = [made for made in running if made.step == "pull"]
        share = CAP_BYTES_PER_S / max(1, len(copying))
        for made in list(running):
            if made.step == "pull":
                self._copy(made, share)
            elif self.now_s >= made.until_s:
                self._next(made, running)

    def _copy(self, made: Made, share: float) -> None:
        stalled = made.stall_from <= made.acked_bytes / IMAGE_BYTES and made.luck.random() > 0.01
        rate = 0.0 if stalled else share * made.speed * made.luck.uniform(0.8, 1.0)
        made.acked_bytes = min(IMAGE_BYTES, made.acked_bytes + rate * self.faster)
        verdict = "slow receiver" if made.speed < 1 else "cap"
        seen = Progress(acked_bytes=int(made.acked_bytes), size_bytes=IMAGE_BYTES, rate_bytes_per_s=rate)
        self.tell(made, "pull", "progress", "", progress=seen, verdict=verdict)
        if made.acked_bytes >= IMAGE_BYTES:
            made.until_s = self.now_s
            made.step = "pulled"
        elif made.luck.random() < 0.0002 * self.faster:
            self.tell(made, "pull", "failed", "no progress for 60 s; the device still answers")
            made.plan = ["restore"]
            made.step, made.until_s = "", self.now_s

    def _next(self, made: Made, running: list[Made]) -> None:
        if made.step and made.step != "pulled":
            self.tell(made, made.step, "done", "1.0 s")
        elif made.step == "pulled":
            self.tell(made, "pull", "done", "90.1 s")
            end = TransferEnd(
                is_delivered=True, verdict="cap", bytes_acked=IMAGE_BYTES, retransmitted_bytes=5000, duration_s=90.0,
                rate_bytes_per_s=1.4e6,
            )  # fmt: skip
            self.tell(made, "transfer", "done", "1.4 MB/s by our server, cap", transfer=end)
        if not made.plan:
            running.remove(made)
            if made.acked_bytes >= IMAGE_BYTES:
                self.tell(made, "device", "done", "done", outcome="done", restored="restored")
            else:
                text = "failed: pull: no progress for 60 s; the device still answers"
                self.tell(
                    made, "device", "failed", text, outcome="failed", restored="restored", failure="TransferStalled"
                )
            return
        made.step = made.plan.pop(0)
        lasts = {"verify": 40.0, "restore": 6.0, "check": 3.0}.get(made.step, 2.0)
        made.until_s = self.now_s + lasts / self.faster * made.luck.uniform(0.5, 2)
        self.tell(made, made.step, "started")


def roster(devices: int) -> Roster:
    """Return the made-up devices."""
    night = Night(devices, silent, 1.0)
    found = [
        Expected(host=made.host, site=site, size_bytes=IMAGE_BYTES) for site in SITES for made in night.waiting[site]
    ]
    return Roster(devices=tuple(found), caps_bytes_per_s=dict.fromkeys(SITES, CAP_BYTES_PER_S))


def show(devices: int, pace: float, faster: float) -> None:
    """Draw in this terminal."""
    with watching("restore", devices=devices, roster=roster(devices)) as emit:
        for _ in Night(devices, emit, faster).seconds():
            time.sleep(pace)


def measure(devices: int, seconds: int, columns: int, lines: int) -> dict[str, float]:
    """Return the CPU seconds per second of telling progress of all devices, and of that with the view drawn."""
    found: dict[str, float] = {}
    for name in ("events only", "with the view"):
        parent, child = pty.openpty()
        termios.tcsetwinsize(child, (lines, columns))
        threading.Thread(target=_drain, args=(parent,), daemon=True).start()
        with os.fdopen(child, "w") as terminal:
            out = Console(file=terminal, force_terminal=True, width=columns, height=lines)
            view = LiveTable(out, "restore", devices, roster=roster(devices))
            for number, one in enumerate(roster(devices).devices):
                view(Event(host=one.host, step="pull", status="started", text="", at_s=number, site=one.site))
            if name == "with the view":
                with view.drawn():
                    found[name] = _cpu_share(view, devices, seconds)
            else:
                found[name] = _cpu_share(view, devices, seconds)
    return found


def _cpu_share(view: LiveTable, devices: int, seconds: int) -> float:
    expected = roster(devices).devices
    began, cpu = time.monotonic(), time.process_time()
    for second in range(seconds):
        for one in expected:
            seen = Progress(acked_bytes=second * 100_000, size_bytes=IMAGE_BYTES, rate_bytes_per_s=1e5)
            view(
                Event(host=one.host, step="pull", status="progress", text="", at_s=second, progress=seen, verdict="cap")
            )
        time.sleep(max(0.0, began + second + 1 - time.monotonic()))
    return (time.process_time() - cpu) / (time.monotonic() - began)


def _drain(number: int) -> None:
    # The terminal's other end is closed at last, which this end calls an error.
    with suppress(OSError):
        while os.read(number, 65_536):
            pass


def main() -> None:
    """Show or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--show", action="store_true", help="draw in this terminal")
    parser.add_argument("--pace", type=float, default=0.2, help="seconds of ours per second of theirs")
    parser.add_argument("--faster", type=float, default=5.0, help="how much faster than real things go")
    parser.add_argument("--seconds", type=int, default=15, help="how long to measure")
    given = parser.parse_args()
    if given.show:
        show(given.devices, given.pace, given.faster)
        return
    for columns, lines in ((80, 24), (160, 50)):
        found = measure(given.devices, given.seconds, columns, lines)
        shares = ", ".join(f"{name} {share:.2%}" for name, share in found.items())
        sys.stdout.write(f"{given.devices} devices, {columns}x{lines}: of a core: {shares}\n")


if __name__ == "__main__":
    main()
