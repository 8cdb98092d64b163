"""Keep one agent per site: a lock in the state folder for this host, a claim at the broker for all others.

The claim is a key that expires unless renewed. It is signed by the agent's key, so write access to the broker does not
suffice: a claim by another key is reported and overwritten. A claim by our key is from an earlier process, or from a
clone of this machine. Two clones would log in to the same devices without knowing each other's configuration lines, so
the later one ends.

An old claim of ours may be replayed through the broker. It is recognised by its place (this state folder, whose lock we
hold), by its time, and because it is not renewed.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.redaction import masked
from flashferry.core.state_folder import lock, make_private_directory, open_private
from flashferry.sites.agent.word_sender import Identity
from flashferry.sites.broker import Broker, BrokerUnreachable
from flashferry.sites.wire import WireError, moment_of, moment_text, opened, sealed

LOCK = "agent.lock"
CLAIM_SCHEMA = "flashferry.claim/1"
_LOG = logging.getLogger("flashferry.sites")
_LEAST_S = 30.0
_REPEAT_S = 60.0
_POLL_S = 1.0
_AGAIN_S = 5.0
_GIVES_UP_WITHIN_S = 2.0
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def only_here(state: Path) -> Iterator[None]:
    """Lock a state folder against a second agent for a block.

    Raises:
        ConfigInvalid: Another agent has it.
    """
    make_private_directory(state)
    with open_private(state / LOCK, "w") as held:
        if not lock(held):
            raise ConfigInvalid(
                f"state folder {state}: expected it free, found that another agent on this host has it",
                hint="End that one first, or give this one another state folder and site",
            )
        yield


def place_of(state: Path) -> str:
    """Return an identifier of this state folder on this booted system, which no copy shares."""
    found = state.stat()
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        boot = secrets.token_hex(16)
    return sha256(f"{boot} {found.st_dev} {found.st_ino}".encode()).hexdigest()[:16]


class Claimed(Struct, frozen=True, kw_only=True):
    """A claim as it is stored at the broker.

    Attributes:
        agent: The agent's own name.
        instance: An identifier of its process.
        place: Identifier of its state folder (`place_of`).
        host: Its host, for people.
        since: When this process first had the claim, UTC.
        at: When the claim was last renewed.
    """

    site: str
    agent: str
    instance: str
    place: str
    host: str
    since: str
    at: str

    def __post_init__(self) -> None:
        moment_of(self.since, "since")
        moment_of(self.at, "at")

    @property
    def rank(self) -> tuple[str, str]:
        """Return the order of two claims of a site: the greater is the later."""
        return (self.since, self.instance)


class Claim:
    """An agent's claim on its site.

    Args:
        broker: The broker. Without Redis no claim is made; the centre then detects two agents by their reports.
        identity: The agent's identity.
        place: Identifier of its state folder.
        beat_s: Interval between renewals, seconds.
        now: Returns the current time.
        steady_s: Returns monotonic seconds.
    """

    def __init__(
        self,
        broker: Broker,
        identity: Identity,
        *,
        place: str,
        beat_s: float,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker, self._identity, self._place = broker, identity, place
        self._now, self._steady_s = now, steady_s
        self._key = f"flashferry.agent.{identity.site}"
        self._instance = secrets.token_hex(8)
        self._since = ""
        self._other: tuple[Claimed, float] | None = None
        self._logged_at_s = -_REPEAT_S
        self.ends_after_s = max(_LEAST_S, 4 * beat_s)

    def renew(self) -> bool:
        """Make or renew the claim.

        Returns:
            Whether the site is ours. False: another process with our key had it lately, and counts as dead once its
                claim was not renewed for `ends_after_s`: call again.

        Raises:
            ConfigInvalid: A clone of this agent works elsewhere.
            BrokerUnreachable: The broker is unreachable; an existing claim holds for a while.
        """
        if not self._broker.has_claims:
            return True
        with self._broker.redis() as client:
            value = client.get(self._key)
            if not self._may_take(self._read(value)):
                return False
            since = self._since or moment_text(self._now())
            # Where there was none, another may have made one a moment ago.
            if not client.set(self._key, self._value(since), nx=value is None, ex=round(self.ends_after_s)):
                return False
            self._since = since
            return True

    def release(self) -> None:
        """Release the claim if it is ours; otherwise it expires."""
        if not self._broker.has_claims or not self._since:
            return
        with self._broker.redis() as client:
            found = self._read(client.get(self._key))
            if found is not None and found.instance == self._instance:
                client.delete(self._key)

    def _value(self, since: str) -> str:
        who = self._identity
        made = Claimed(
            site=who.site,
            agent=who.agent,
            instance=self._instance,
            place=self._place,
            host=socket.gethostname(),
            since=since,
            at=moment_text(self._now()),
        )
        return sealed(made, CLAIM_SCHEMA, who.key)

    def _read(self, value: object) -> Claimed | None:
        """Parse a claim; None if it is not signed by our key for our site."""
        if value is None:
            return None
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        try:
            found = opened(text, CLAIM_SCHEMA, Claimed, (self._identity.key.public,))
        except WireError as error:
            self._warn(f"it is not by this agent's key ({error.message})")
            return None
        return found if found.site == self._identity.site else None

    def _may_take(self, found: Claimed | None) -> bool:
        """Return whether a claim can be made over an existing one.

        Raises:
            ConfigInvalid: The other agent is alive and was there first.
        """
        if found is None or found.instance == self._instance or found.place == self._place:
            return True
        age_s = (self._now() - moment_of(found.at)).total_seconds()
        if abs(age_s) > self.ends_after_s:
            self._warn(f"it is an old one of this agent's, made at {found.at}")
            return True
        if self._since and (self._since, self._instance) < found.rank:
            self._warn(f"a copy of this agent on host {found.host} came later, and is to end")
            return True
        return self._is_dead(found)

    def _is_dead(self, found: Claimed) -> bool:
        """Return whether the other claim may be overwritten: we have ours, or it was not renewed."""
        before, since_s = self._other or (found, self._steady_s())
        if before.instance != found.instance:
            before, since_s = found, self._steady_s()
        self._other = (before, since_s)
        if found.at > before.at:
            raise self._taken(found)
        return bool(self._since) or self._steady_s() - since_s >= self.ends_after_s

    def _taken(self, found: Claimed) -> ConfigInvalid:
        return ConfigInvalid(
            f"site {self._identity.site}: expected it free, found that a copy of this agent works for it on host "
            f"{found.host}: one device belongs to one agent",
            hint=f"End the other one; its claim ends {self.ends_after_s:.0f} s after its last beat at the latest. If "
            "this machine was cloned, give it a state folder and a key of its own",
        )

    def _warn(self, what: str) -> None:
        if self._steady_s() - self._logged_at_s < _REPEAT_S:
            return
        self._logged_at_s = self._steady_s()
        _LOG.warning(
            "site %s: the claim at the broker was overwritten: %s. Another agent is configured for this site, or "
            "others write to the broker; orders name the key of the agent that is to carry them out",
            self._identity.site,
            masked(what),
        )


class Presence:
    """Make and renew the claim in a thread, so that an unresponsive broker blocks nothing else.

    Args:
        claim: The claim.
        beat_s: Interval between renewals, seconds.
        ending: Set when the agent is to end.
        report: Shows sentences to the operator.
    """

    def __init__(self, claim: Claim, *, beat_s: float, ending: threading.Event, report: Callable[[str], None]) -> None:
        self._claim, self._beat_s, self._ending, self._say = claim, beat_s, ending, report
        self._is_ours, self._is_tried, self._is_reported = threading.Event(), threading.Event(), False
        self._error: FlashferryError | None = None
        self._thread = threading.Thread(target=self._run, name="agent-presence", daemon=True)

    def start(self) -> None:
        """Start, and wait until the first attempt to claim the site is over."""
        self._thread.start()
        while not self._is_tried.wait(_POLL_S) and not self._ending.is_set():
            pass

    def is_ours(self) -> bool:
        """Return whether the claim was made.

        Raises:
            ConfigInvalid: Another agent has the site.
        """
        if self._error is not None:
            raise self._error
        return self._is_ours.is_set()

    def give_up(self) -> None:
        """Release the claim, without waiting long for the broker."""
        thread = threading.Thread(target=self._release, name="agent-leaves", daemon=True)
        thread.start()
        thread.join(_GIVES_UP_WITHIN_S)

    def _release(self) -> None:
        with suppress(FlashferryError):
            self._claim.release()

    def _run(self) -> None:
        while not self._ending.is_set() and self._error is None:
            try:
                wait_s = self._renewed()
            except BrokerUnreachable as error:
                # Later on the word sender reports it; the site goes on.
                self._report_once(f"takes no orders yet, and tries again: {error}")
                wait_s = _AGAIN_S
            except FlashferryError as error:
                self._error, wait_s = error, 0.0
            except Exception as error:  # noqa: BLE001 -- a driver's fault: the claim must still be renewed
                _LOG.error("the claim on the site could not be renewed: %s", masked(repr(error)))
                wait_s = _AGAIN_S
            self._is_tried.set()
            self._ending.wait(wait_s)

    def _renewed(self) -> float:
        """Renew the claim; return the seconds until the next renewal."""
        while not self._claim.renew():
            self._report_once(
                "another agent with this key had the site lately: waiting up to "
                f"{self._claim.ends_after_s:.0f} s to see whether it still runs"
            )
            if self._ending.wait(_POLL_S):
                return 0.0
        self._is_ours.set()
        return self._beat_s

    def _report_once(self, text: str) -> None:
        if not self._is_reported and not self._is_ours.is_set():
            self._is_reported = True
            self._say(text)
