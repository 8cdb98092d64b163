"""The demo of sites, what of it needs no lab: its judgement, its lines, what it refuses, and the guard behind it."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from flashferry.cli.main import main
from flashferry.core.values import replace
from flashferry.lab import broker
from flashferry.lab.demo.sites import verification
from flashferry.lab.demo.sites.environment import opened
from flashferry.lab.demo.sites.verification import Cut, CutSeen, LinkSeen, RouterSeen, Seen, event_text, judged
from flashferry.lab.errors import LabError
from flashferry.lab.world import WorldSpec
from tests.patience import PATIENCE_S

IMAGE, RIGHT = "image.bin", "5" * 128
RECORD = {"outcome": "done", "restored": "restored", "transport": "ftp", "source": None, "pull": None}
ROUTER = RouterSeen(
    name="r1", site="a", image=IMAGE, held=RIGHT, had=False, usual="its depot", changed="", record=RECORD
)
LINK = LinkSeen(site="a", routers=2, by="a depot", image_bytes=1000, carried_bytes=1060, lan_bytes=2050)
CUT = CutSeen(site="a", seconds=20.0, carried_bytes=0, grown_bytes=500, silent_s=15.0)
PART = {"site": "a", "state": "ended", "is_whole": True}
SEEN = Seen(
    routers=(ROUTER,), links=(LINK,), digests={IMAGE: RIGHT}, parts=(PART,), cut=CUT, depots={"a": (IMAGE, RIGHT)}
)


def routers(**changes):
    return {"routers": (replace(ROUTER, **changes),)}


def recorded(**changes):
    return routers(record=RECORD | changes)


def links(**changes):
    return {"links": (replace(LINK, **changes),)}


def cut(**changes):
    return {"cut": replace(CUT, **changes)}


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({}, []),
        (routers(record=None), ["r1: it has no record"]),
        (recorded(outcome="failed", failure={"reason": "no route"}), ["r1: failed: no route"]),
        (recorded(restored="incomplete"), ["r1: its record says of its configuration: incomplete"]),
        (routers(had=True), ["r1: the image was there before anything was staged"]),
        (routers(changed="a line more"), ["r1: its configuration is not what it was: a line more"]),
        (routers(held=""), ["r1: image.bin on its flash is missing"]),
        (routers(held="6" * 128), ["r1: image.bin on its flash is not the image"]),
        ({"depots": {"a": (IMAGE, "")}}, ["a: image.bin at its depot is missing"]),
        (links(carried_bytes=1200), ["a: expected its line to carry 1 to 1.12 of the image, it carried 1.20"]),
        (links(carried_bytes=900), ["a: expected its line to carry 1 to 1.12 of the image, it carried 0.90"]),
        (links(lan_bytes=999), ["a: expected the copies on its LAN, which carried 999 B"]),
        ({"parts": ()}, ["no site was given a part"]),
        ({"parts": (PART | {"is_whole": False},)}, ["site a: its part is ended, messages are missing"]),
        ({"parts": (PART | {"state": "refused"},)}, ["site a: its part is refused, all messages have arrived"]),
        ({"cut": None}, ["no link was cut during the run"]),
        (cut(carried_bytes=7), ["a: its line was cut, and carried 7 bytes"]),
        (cut(grown_bytes=0), ["a: nothing was copied there while its line was cut"]),
        (cut(silent_s=3.0), ["a: expected the centre to call it silent, its last word came 3 s before"]),
        (cut(silent_s=float("nan")), ["a: expected the centre to call it silent, its last word came nan s before"]),
    ],
)
def test_whatever_is_not_as_it_should_be_is_printed(change, values, capsys):
    """A sentence for it, in the result and on the terminal; and nothing is said to be well that is not."""
    assert list(judged(replace(SEEN, **change))) == values
    out = capsys.readouterr().out
    assert all(f"WRONG: {sentence}" in out for sentence in values)
    well = (
        "all routers are done", "configurations are what they were", "byte for byte", "carried its image once",
        "records of all parts are complete", "whose link was cut kept running",
    )  # fmt: skip
    assert sum(one in out for one in well) == (len(well) - 1 if values else len(well))


def test_the_table_says_who_gave_a_router_its_image(capsys):
    """A neighbour by its name, else the site's depot and the protocol."""
    judged(replace(SEEN, routers=(ROUTER, replace(ROUTER, name="r2", record=RECORD | {"source": "neighbour r1"}))))
    lines = capsys.readouterr().out.splitlines()
    assert [next(line for line in lines if line.startswith(name)).split()[4:7] for name in ("r1", "r2")] == [
        ["its", "depot,", "ftp"],
        ["neighbour", "r1", "-"],
    ]


def event(step, status, text="", host="r1", **more):
    return {"host": host, "site": "a", "step": step, "status": status, "text": text} | more


def test_a_run_is_printed_in_few_lines():
    """When a copy begins, who serves whom, and how a device ended; of its other steps nothing."""
    values = [
        event_text(one, " from their depot")
        for one in (
            event("connect", "started"),
            event("pull", "started"),
            event("pull", "progress", "9% acknowledged"),
            event("serve", "note", "serves r2"),
            event("transport", "note", "note: the image comes from r2"),
            event("device", "done", "done", outcome="done", restored="restored"),
            event("site a", "note", "accepted", host=None),
            event("wave", "started", "canary", host=None),
        )
    ]
    assert values == [
        None, "copy started from their depot", None, "serves r2", "the image comes from r2",
        "done, configuration restored", "accepted", None,
    ]  # fmt: skip


class LineOfALab:
    """A lab of two routers, as far as a cut sees it."""

    def __init__(self):
        self.sizes, self.carried, self.done = {"r1": 0, "r2": 0}, 100, []
        self.devices = tuple(SimpleNamespace(name=name, site="a") for name in self.sizes)

    def files(self, name):
        return (SimpleNamespace(name=IMAGE, size_bytes=self.sizes[name]),)

    def link_counters(self, site):
        return {way: {"delivered_bytes": self.carried} for way in ("to_site", "to_core")}

    def cut(self, site):
        self.done.append(("cut", site))

    def mend(self, site):
        self.done.append(("mend", site))


def test_a_line_is_cut_while_routers_copy_and_mended_behind_the_look_at_the_centre(monkeypatch, capsys):
    """Not while the first copies alone; and what is printed of the time between is measured on both sides."""
    now, asked = [0.0], []
    monkeypatch.setattr(verification, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(verification, "print_agents", asked.append)
    lab = LineOfALab()
    rows = [{"site": "a", "heard_at": "2020-01-01T00:00:00+00:00"}]
    one = Cut(lab, "a", IMAGE, lambda: rows, 5)
    for sizes in ((0, 0), (400, 0), (900, 0)):
        lab.sizes = dict(zip(lab.sizes, sizes, strict=True))
        one.check()
    assert not lab.done
    lab.sizes["r2"] = 10
    one.check()
    assert (lab.done, one.is_cut) == ([("cut", "a")], True)
    for now[0] in (5.0, 14.0, 15.0):
        one.check()
    assert asked == [rows]
    lab.sizes["r2"] = 610
    now[0] = 20.0
    one.check()
    assert (lab.done[-1], one.is_cut) == (("mend", "a"), False)
    assert (one.seen.carried_bytes, one.seen.grown_bytes, one.seen.seconds) == (0, 600, 20.0)
    assert one.seen.silent_s > 1000
    assert "During the run the link of a is cut" in capsys.readouterr().out


def test_a_line_that_is_cut_at_the_end_is_mended(monkeypatch):
    """Whoever ends then is heard; one that is not cut is left alone."""
    lab = LineOfALab()
    one = Cut(lab, "a", IMAGE, list, 5)
    one.end()
    assert not lab.done
    lab.sizes = {"r1": 900, "r2": 10}
    one.check()
    one.end()
    assert lab.done == [("cut", "a"), ("mend", "a")]


def test_without_redis_it_says_so_before_anything_is_started(monkeypatch):
    """One sentence, with the package to install."""
    monkeypatch.setattr(broker.shutil, "which", lambda _: None)
    with (
        pytest.raises(LabError, match="redis-server is not installed"),
        opened(WorldSpec(), threading.Event(), threading.Event()),
    ):
        pass


def test_without_root_it_says_what_the_other_demo_says(monkeypatch, capsys):
    """The same sentence and exit code."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(broker.shutil, "which", lambda name: f"/usr/bin/{name}")
    values = []
    for verb in ("demo", "sites-demo"):
        monkeypatch.setattr("sys.argv", ["flashferry", "lab", verb])
        with pytest.raises(SystemExit) as ended:
            main()
        values.append((ended.value.code, *capsys.readouterr()))
    assert values[0] == values[1]
    assert "needs root" in values[1][2]


@pytest.mark.parametrize("said", [b"", b"done\n"])
def test_the_guard_ends_what_a_killed_demo_left_and_nothing_behind_one_that_ended(said, tmp_path):
    """A process of ours with the folder in its command line, and the folder; somebody who only reads there stays."""
    folder = tmp_path / "lab"
    folder.mkdir()
    ours = [sys.executable, "-P", "-m", "flashferry", "depot", "--state-dir", str(folder)]
    sleeper = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    left = subprocess.Popen([*sleeper, *ours[2:]], stdout=subprocess.PIPE)
    reader = subprocess.Popen([*sleeper, str(folder)], stdout=subprocess.PIPE)
    try:
        for one in (left, reader):
            assert one.stdout is not None
            one.stdout.readline()
        subprocess.run(
            [sys.executable, "-P", "-m", "flashferry.lab.demo.guard"],
            input=f"{folder}\n".encode() + said,
            timeout=PATIENCE_S,
            check=True,
        )
        assert folder.exists() is bool(said)
        assert (left.poll() is None) is bool(said)
        assert reader.poll() is None
    finally:
        for one in (left, reader):
            one.kill()
            one.wait()
            one.stdout.close()
