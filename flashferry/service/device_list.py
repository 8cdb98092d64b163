"""List of all devices known from the inventory and from runs, with the latest findings on each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import quote

from msgspec import Struct

from flashferry.model.states import NOT_RESTORED, Phase, State, label_of, phase_of
from flashferry.service.jobs.results import Finding, newest_findings, readiness_words
from flashferry.service.known_names import inventory_hosts
from flashferry.service.principal import Actor
from flashferry.service.run_visibility import is_visible, sites_of
from flashferry.service.service import Service
from flashferry.store.fleet_view import KnownDevice, copied_at, devices_with_facts, known_devices
from flashferry.store.history import History
from flashferry.store.measurements import Measurement
from flashferry.store.reader import is_run_alive

NEVER_CHECKED = "never checked"


_NOTHING = Finding(word="", tone="quiet")


class ListedDevice(Struct, frozen=True, kw_only=True):
    """A device with the latest findings on it.

    Attributes:
        site: Empty: none.
        newest: Newest finding of any kind.
        ready: Newest readiness check; an empty `word`: none.
        last: Its state in its last run; None: none.
        copy: Newest measured copy, of which the speed is; None: none.
        copied_at: Start of the newest copy that was completed and verified, ISO 8601; empty: none.
        is_listed: Whether the inventory has the device.
        is_held: Whether a run that is over left its configuration changed.
    """

    host: str
    address: str
    site: str
    model: str
    release: str
    newest: Finding
    ready: Finding
    last: KnownDevice | None
    copy: Measurement | None
    copied_at: str
    is_listed: bool
    is_held: bool

    @property
    def speed_bytes_per_s(self) -> float | None:
        """Return the speed of the newest copy; None if there is none, or it is not representative."""
        return self.copy.bytes_per_s if self.copy is not None and self.copy.counts else None


class DeviceList(Struct, frozen=True, kw_only=True):
    """The devices that a caller may see; `trouble` says why inventory devices are missing, empty if none are."""

    devices: tuple[ListedDevice, ...]
    trouble: str

    @property
    def sites(self) -> tuple[str, ...]:
        """Return the sites of the devices."""
        return tuple(sorted({one.site for one in self.devices if one.site}))

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models of the devices."""
        return tuple(sorted({one.model for one in self.devices if one.model}))


def listed_devices(service: Service, actor: Actor) -> DeviceList:
    """Return the devices that a caller may see, by name. Raises `ConfigInvalid` if the journal cannot be read."""
    sites = sites_of(actor)
    known = {one.host: one for one in known_devices(service.state)}
    findings = newest_findings(service, actor)
    checks, readies = findings.checks, findings.readies
    # The last run of a device may have read nothing from it.
    unread = devices_with_facts(service.state, [one.host for one in known.values() if not one.model])
    earlier = {one.host: one for one in unread if is_visible(one.site, sites)}
    copied = copied_at(service.state)
    history = History.read(service.state, counts_damaged=False)
    alive = alive_runs(service, known.values())
    hosts, trouble = inventory_hosts(service)
    places = {one.host: (one.address, one.site) for one in known.values()} | dict(hosts)
    found = []
    for host, (address, site) in sorted(places.items()):
        last = known.get(host)
        # In its last run the device may have been at a site that the caller may not see.
        if not is_visible(site, sites) or (last is not None and not is_visible(last.site, sites)):
            continue
        of_run = _NOTHING if last is None else _of_run(last, alive)
        ready = readies.get(host, _NOTHING)
        if last is not None and last.readiness and last.updated_at > ready.at:
            word, tone = readiness_words(last.readiness)
            ready = Finding(word=word, tone=tone, at=last.updated_at, path=of_run.path)
        is_held = last is not None and last.is_held and last.run_id not in alive
        newest = max((of_run, checks.get(host, _NOTHING), ready), key=lambda one: one.at)
        copies = history.of(host)
        read = earlier.get(host)
        of_earlier = _NOTHING if read is None else _of_run(read, alive)
        model, release = _latest(of_run, of_earlier, findings.facts.get(host, _NOTHING))
        found.append(
            ListedDevice(
                host=host,
                address=address,
                site=site,
                model=model,
                release=release,
                newest=of_run if is_held or not newest.word else newest,
                ready=ready,
                last=last,
                copy=copies[-1] if copies else None,
                copied_at=copied.get(host, ""),
                is_listed=host in hosts,
                is_held=is_held,
            )
        )
    return DeviceList(devices=tuple(found), trouble=trouble)


def alive_runs(service: Service, had: Iterable[KnownDevice]) -> frozenset[str]:
    """Return the live runs among those in which a device has no outcome yet."""
    open_runs = {one.run_id for one in had if one.is_held or one.outcome is None}
    return frozenset(run_id for run_id in open_runs if is_run_alive(service.state, run_id))


def state_word(one: KnownDevice, alive: Collection[str]) -> tuple[str, str]:
    """Return the state of a device in its run in words, and its tone."""
    if one.run_id in alive and (one.is_held or one.outcome is None):
        has_started = one.is_held or one.state != State.PLANNED
        return (Phase.IN_PROGRESS if has_started else Phase.QUEUED).label, ""
    phase = phase_of(one.outcome, one.state, is_alive=False)
    word = phase.label if one.outcome is None else label_of(one.outcome)
    return (f"{word}, {NOT_RESTORED}", "bad") if one.is_held else (word, phase.tone)


def _of_run(one: KnownDevice, alive: Collection[str]) -> Finding:
    word, tone = state_word(one, alive)
    path = f"/runs/{quote(one.run_id, safe='')}/devices/{quote(one.host, safe='')}"
    return Finding(word=word, tone=tone, at=one.updated_at, path=path, model=one.model or "", release=one.release or "")


def _latest(*findings: Finding) -> tuple[str, str]:
    """Return model and release by the newest finding that names a model; empty if none does."""
    newest = max((one for one in findings if one.model), key=lambda one: one.at, default=_NOTHING)
    return newest.model, newest.release
