"""A centre of sites, made up: agents that are ready, silent and of another release, depots, and two runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from flashferry.sites.centre.centre import our_release
from flashferry.sites.keys import PublicKey
from flashferry.store.database import moment
from flashferry.store.sites.agents import AgentBeat, Fetching, take_beat, take_depot, take_fetching
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import Part, PartDevice, PartState, SiteRun, add_run
from tests.showcase.fleet import IMAGES

SITES = ("ams", "gva", "lim", "osl", "trn")
_STATES = {
    "ams": PartState.RUNNING,
    "gva": PartState.REFUSED,
    "lim": PartState.RUNNING,
    "osl": PartState.GIVEN,
    "trn": PartState.ENDED,
}


def settings_text() -> str:
    """Return the centre's settings of the sites."""
    key = PublicKey(raw=bytes(32)).line
    sites = "".join(f'[sites.{name}]\nagent_key = "{key}"\ninventory_sites = ["{name.upper()}"]\n' for name in SITES)
    return f'[centre]\nkey = "k"\nplans_folder = "p"\n[broker]\nurl = "redis://127.0.0.1/0"\n{sites}'


def centre(state: Path, now: datetime, *, names: Sequence[str] = ()) -> str:
    """Make it in a state folder; return the run that is under way.

    Args:
        state: The folder.
        now: What time it is.
        names: Hostile texts, which stand wherever people and agents may say something.
    """
    (state / "sites.toml").write_text(settings_text())
    ledger = SitesDatabase(state)
    said = names[0] if names else ""
    _agents(ledger, now, said, names)
    before = f"{now - timedelta(days=1):%Y%m%d}-220000-c1d2"
    _run(ledger, before, now - timedelta(days=1), PartState.ENDED, said)
    alive = f"{now - timedelta(hours=1):%Y%m%d-%H%M}00-a7f3"
    _run(ledger, alive, now - timedelta(hours=1), None, said)
    return alive


def _agents(ledger: SitesDatabase, now: datetime, said: str, names: Sequence[str]) -> None:
    # Of the first the clock is off, the second has another release, one is silent, and one was never heard.
    heard_s = {"ams": 6, "gva": 11, "lim": 12 * 60, "osl": 3}
    with ledger.writing() as database:
        for number, (site, ago_s) in enumerate(heard_s.items()):
            beat = AgentBeat(
                site=site,
                agent=said or f"{site}-5e0c9a{number}",
                instance="1",
                release="0.0.9" if site == "gva" else our_release(),
                last_message_at=moment(now - timedelta(seconds=ago_s)),
                clock_ahead_s={"ams": 0.2, "gva": -1.4, "lim": 0.1, "osl": 74.0}[site],
            )
            take_beat(database, beat)
            images = IMAGES if site != "ams" else (*IMAGES, *(f"c9{n}00-universalk9.17.12.0{n}.bin" for n in range(4)))
            take_depot(database, site, [*images, *names])
        on_its_way = Fetching(
            image=said or "cat9k_iosxe.17.15.01.SPA.bin", phase="copying", done_bytes=43, size_bytes=100
        )
        take_fetching(database, "gva", on_its_way)


def _run(ledger: SitesDatabase, name: str, at: datetime, ended: PartState | None, said: str) -> None:
    refusal = said or "expected the image in its depot, found it unproven. 'flashferry depot sync' gets it"
    parts, devices = [], []
    for site in SITES:
        state = ended or _STATES[site]
        told = {PartState.REFUSED: refusal, PartState.ENDED: said or "all devices are done"}.get(state, "")
        if state is PartState.ENDED and not ended:
            told = said or "1 of 8 devices is left in hand: its run died"
        heard = None if state is PartState.GIVEN else moment(at + timedelta(minutes=50))
        given = {
            "run": name,
            "site": site,
            "agent": f"{site}-5e0c9a",
            "changed_at": moment(at),
            "last_message_at": heard,
        }
        whole, end = (9, 9) if state is PartState.ENDED else (4, None)
        parts.append(Part(round=1, from_wave=1, state=state, sentence=told, whole=whole, end_offset=end, **given))
        devices += [PartDevice(host=f"{site}-sw{n:02}", site=site, round=1, wave=1) for n in range(1, 9)]
    first = {"run": name, "site": "ams", "agent": "ams-5e0c9a", "changed_at": moment(at), "last_message_at": moment(at)}
    parts.append(Part(round=0, from_wave=0, state=PartState.ENDED, whole=3, end_offset=3, **first))
    devices.append(PartDevice(host="ams-sw00", site="ams", round=0, wave=0))
    run = SiteRun(
        run=name, digest="0123456789abcdef" * 4, plan="{}", started_at=moment(at), started_by=said or "anna",
        valid_until=moment(at + timedelta(hours=12)), stopped=said or None,
        ended_at=moment(at + timedelta(minutes=55)) if ended else None,
    )  # fmt: skip
    with ledger.writing() as database:
        add_run(database, run, parts, devices)
        # Of the run under way some devices are through, one failed, and a part that ended left one in hand.
        begun = ("ams", "lim")
        done = [
            one.host for one in devices if ended or one.site == "trn" or (one.site in begun and one.host[-1] in "012")
        ]
        for host in done:
            outcome = "failed" if host == "ams-sw02" and not ended else "done"
            record = json.dumps({"host": host, "state": outcome, "outcome": outcome})
            database.execute("UPDATE devices SET record = ? WHERE run = ? AND host = ?", (record, name, host))
        if not ended:
            database.execute("UPDATE devices SET is_held = 1 WHERE run = ? AND host = 'trn-sw07'", (name,))
