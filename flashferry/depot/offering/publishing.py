"""Publish the offer to other sites: their logins and caps, images, and reports of refused logins."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashferry.core.codec import CodecError, decode_exactly
from flashferry.core.errors import ConfigInvalid, FlashferryError, reason_of
from flashferry.core.files import NotRegular, reading
from flashferry.core.units import counted, link_rate
from flashferry.depot.shared_state import OPERATOR
from flashferry.depot.sync.filling import SyncStopped
from flashferry.fileserver import EventKind, FixedLogin, ServerGone, SettingsInvalid
from flashferry.fileserver.wire import SetSiteCap
from flashferry.model.file_keys import parsed_toml
from flashferry.model.link_rates import payload_cap_bytes_per_s
from inventory.host_view import DEFAULT_CAP_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from flashferry.depot.offering.offer import Offer, Offering
    from flashferry.depot.shared_state import SharedState
    from flashferry.fileserver import FileServer, FixedLogin, LoginFailure, ServerEvent

_OTHERS = stat.S_IRWXO | stat.S_IRWXG
_MOST_BYTES = 1 << 20
_EXAMPLE = 'Write, say: [sites.branch] user = "branch", password_file = "/etc/flashferry/branch.password"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A site whose depot may fetch from ours, as in the file of mirrors.

    Attributes:
        user: Its user name; unique.
        password: Its password; empty: in `password_file`.
        password_file: Absolute path of a file with the password; empty: in `password`.
        allow: Allowed source addresses or networks; empty: any.
        link_mbps: Rate of the site's link in Mbit/s, > 0, or None.
        cap_share: Share of that rate for all copies to the site together, 0 to 1.
        cap_mbps: Or that cap in Mbit/s, > 0; None: not given.
    """

    user: str
    password: str = field(default="", repr=False)
    password_file: str = ""
    allow: tuple[str, ...] = ()
    link_mbps: float | None = None
    cap_share: float = DEFAULT_CAP_SHARE
    cap_mbps: float | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if bool(self.password) == bool(self.password_file):
            raise ConfigInvalid("password: expected it, or a password_file in its place", hint=_EXAMPLE)
        for key in ("link_mbps", "cap_mbps"):
            if (value := getattr(self, key)) is not None and not 0 < value < 1e6:
                raise ConfigInvalid(f"{key}: expected more than 0 Mbit/s, found {value}", hint="Give the link's rate")
        if not 0 < self.cap_share <= 1:
            raise ConfigInvalid(
                f"cap_share: expected more than 0 and at most 1, found {self.cap_share}", hint="0.8 say"
            )

    @property
    def cap_bytes_per_s(self) -> int | None:
        """Return the cap of all copies to the site together, as payload; None: no cap."""
        if self.cap_mbps is not None:
            return payload_cap_bytes_per_s(self.cap_mbps * 1e6)
        return None if self.link_mbps is None else payload_cap_bytes_per_s(self.link_mbps * 1e6 * self.cap_share)

    @property
    def cap_source(self) -> str:
        """Return the origin of the cap in words."""
        if self.cap_mbps is not None:
            return f"{link_rate(self.cap_mbps * 1e6)}, of the file of mirrors"
        link_bps = (self.link_mbps or 0.0) * 1e6
        return f"{self.cap_share:.0%} of {link_rate(link_bps)}, of the file of mirrors"


def load_mirrors(path: Path) -> dict[str, tuple[Mirror, FixedLogin]]:
    """Read the sites and logins in a file of mirrors, by the inventory's site names.

    Raises:
        ConfigInvalid: It cannot be read, others can read it, or a key is wrong.
    """
    data = parsed_toml(_secret(path, f"--mirrors {path}"), where=f"--mirrors {path}", has_secrets=True)
    sites = data.pop("sites", None)
    if data or not isinstance(sites, dict) or not sites:
        raise ConfigInvalid(
            f"--mirrors {path}: expected a table [sites.NAME] for each site and nothing else, "
            f"found {', '.join(map(str, data))[:60] or 'no site'}",
            hint=_EXAMPLE,
        )
    found = {str(site): _mirror(path, str(site), one) for site, one in sites.items()}
    twice = [user for user, times in Counter(one.user for one in found.values()).items() if times > 1]
    if twice:
        raise ConfigInvalid(
            f"--mirrors {path}: expected a user of its own for each site, found {twice[0][:40]!r} for several",
            hint="What a site fetches counts for the site of its user",
        )
    return {site: (one, _login(path, site, one)) for site, one in found.items()}


def _mirror(path: Path, site: str, data: Any) -> Mirror:
    try:
        return decode_exactly(Mirror, data)
    except (CodecError, ConfigInvalid) as error:
        hint = error.hint if isinstance(error, ConfigInvalid) else _EXAMPLE
        # What it complains of begins with the key, if it is one key's.
        raise ConfigInvalid(f"--mirrors {path}: sites.{site}.{error.message}", hint=hint) from None


def _login(path: Path, site: str, mirror: Mirror) -> FixedLogin:
    password = mirror.password or _password(path, site, Path(mirror.password_file))
    link_bytes_per_s = None if mirror.link_mbps is None else payload_cap_bytes_per_s(mirror.link_mbps * 1e6)
    try:
        return FixedLogin(
            username=mirror.user,
            password=password,
            source_addresses=mirror.allow,
            site=site,
            link_bytes_per_s=link_bytes_per_s,
        )
    except SettingsInvalid as error:
        raise ConfigInvalid(f"--mirrors {path}: sites.{site}: {error.message}", hint=error.hint) from None


def _password(path: Path, site: str, file: Path) -> str:
    where = f"--mirrors {path}: sites.{site}.password_file {file}"
    return _secret(file, where).decode("utf-8", "replace").strip()


def _secret(path: Path, where: str) -> bytes:
    """Read a file that only its owner may read. Raises `ConfigInvalid`: it cannot be read, or others can read it."""
    try:
        with reading(path) as file:
            status = os.fstat(file.fileno())
            data = file.read(_MOST_BYTES)
    except OSError as error:
        why = error.found if isinstance(error, NotRegular) else error.strerror
        raise ConfigInvalid(
            f"{where}: expected a file that can be read, found: {why}", hint="Give the path of a file that is there"
        ) from None
    if status.st_mode & _OTHERS or status.st_uid not in (os.geteuid(), 0):
        raise ConfigInvalid(
            f"{where}: expected a file of ours that others cannot read, found mode "
            f"{stat.S_IMODE(status.st_mode):04o} of user {status.st_uid}",
            hint=f"Remove the permission (chmod 600 {path}), and change the passwords if others had the time",
        )
    return data


EVERY_S = 60.0
"""Time during which further refusals are only counted."""

MOST_APART = 200
"""Addresses and users counted separately in that time; others are counted together."""

_REST = ("", "", "")


@dataclass(slots=True)
class _Reported:
    """The last report about an address and user, and how many refusals followed."""

    at_s: float
    text: str
    more: int = 0


class Refusals:
    """Decide which refused logins are reported. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._reported: dict[tuple[str, str, str], _Reported] = {}

    def take(self, failure: LoginFailure, now_s: float) -> str:
        """Return the report of a refusal; empty if it is only counted."""
        key = (failure.peer_address, failure.site, failure.username_masked)
        if key not in self._reported and len(self._reported) >= MOST_APART:
            key = _REST
        if (reported := self._reported.get(key)) is not None:
            reported.more += 1
            return ""
        text = "login refused: more addresses and users than are counted singly" if key == _REST else _text(failure)
        self._reported[key] = _Reported(at_s=now_s, text=text)
        return text

    def due(self, now_s: float) -> Iterator[str]:
        """Yield a report for each group of refusals whose time is over."""
        for key, reported in tuple(self._reported.items()):
            if now_s - reported.at_s < EVERY_S:
                continue
            if not reported.more:
                del self._reported[key]
                continue
            yield f"{reported.text}; {counted(reported.more, 'more time')} since the last report"
            self._reported[key] = _Reported(at_s=now_s, text=reported.text)


def _text(failure: LoginFailure) -> str:
    who = f"site {failure.site}" if failure.site else f"user {failure.username_masked}"
    return f"login refused for {failure.peer_address}: {who}, {failure.reason}"


SCAN_EVERY_S = 1.0
_JOIN_S = 5.0
_ENDS = frozenset({EventKind.DONE, EventKind.FAILED})


class Publisher:
    """Offer a catalogue to sites, on a thread of its own.

    Args:
        server: The file server.
        shared: The state shared with this host's runs, which has each site's cap.
        sites: The sites' logins and caps.
        offering: Scans the catalogue.
        report: Called with `fetched` or `refused` and a sentence; from other threads.
    """

    def __init__(
        self,
        server: FileServer,
        shared: SharedState,
        sites: Mapping[str, tuple[Mirror, FixedLogin]],
        offering: Offering,
        report: Callable[[str, str], None],
    ) -> None:
        self._server, self._shared, self._sites, self._offering = server, shared, sites, offering
        self._report = report
        self._is_over = threading.Event()
        self._said: set[str] = set()
        self._refusals, self._refusing = Refusals(), threading.Lock()
        self._thread = threading.Thread(target=self._live, name="depot-offer", daemon=True)

    def start(self) -> None:
        """Apply caps and logins, and start scanning.

        Raises:
            ServerGone: The server has ended.
        """
        for site, (mirror, _) in self._sites.items():
            if mirror.cap_bytes_per_s is not None:
                cap = SetSiteCap(site=site, cap_bytes_per_s=mirror.cap_bytes_per_s, source=mirror.cap_source)
                self._shared.state_cap(OPERATOR, cap)
        for _, login in self._sites.values():
            # At once: who comes before anything was looked at is to be known, and to find nothing yet.
            self._server.admit(login, ())
        self._server.events(self._on_event)
        self._thread.start()

    def close(self) -> None:
        """Stop scanning."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _live(self) -> None:
        pause_s = 0.0
        while not self._is_over.wait(pause_s):
            self._report_refusals()
            try:
                offer = self._offering.update(self._is_over.is_set)
                pause_s = 0.0 if offer is not None and offer.is_more else SCAN_EVERY_S
                if offer is not None:
                    self._publish(offer)
            except SyncStopped:
                return
            except ServerGone:
                # One that died is replaced, with its settings; one that ended for good ends us.
                pause_s = SCAN_EVERY_S
            except (FlashferryError, OSError) as error:
                pause_s = SCAN_EVERY_S
                self._once(f"what the catalogue offers could not be looked at: {reason_of(error)}")

    def _publish(self, offer: Offer) -> None:
        for _, login in self._sites.values():
            self._server.admit(login, offer.files)
        for one in offer.left_out:
            self._once(f"not offered: {one}")
        more = ", more are being read" if offer.is_more else ""
        what = f"{counted(offer.images, 'image')} and {counted(offer.plans, 'plan')}"
        self._server.note(f"offers {what} to {counted(len(self._sites), 'site')}{more}")

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._server.note(text)

    def _on_event(self, event: ServerEvent) -> None:
        """Report transfers and logins that belong to no run."""
        progress = event.progress
        if event.kind is EventKind.LOGIN_FAILED and progress is None and self._server.unattributed_failures:
            self._take_refusal(self._server.unattributed_failures[-1])
        if progress is None or progress.record is None or event.kind not in _ENDS:
            return
        if self._shared.is_owned(progress.ticket_id):
            return
        record = progress.record
        self._report(
            "fetched",
            f"site {progress.site} ({record.peer_address}) fetched {record.image_name} from byte "
            f"{record.offset_bytes}: {record.bytes_acked} bytes, {record.outcome}",
        )

    def _take_refusal(self, failure: LoginFailure) -> None:
        with self._refusing:
            text = self._refusals.take(failure, time.monotonic())
        if text:
            self._report("refused", text)

    def _report_refusals(self) -> None:
        with self._refusing:
            texts = tuple(self._refusals.due(time.monotonic()))
        for text in texts:
            self._report("refused", text)
