"""Users and tokens, shaped as JSON Web Tokens (RFC 7519), and the state of a controller."""

from __future__ import annotations

import hmac
import secrets
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock
from typing import Any

from flashferry.lab.cml.definitions import Definitions, refused
from flashferry.lab.cml.elements import Lab, fill, new_id
from flashferry.lab.cml.faults import Switches
from flashferry.lab.cml.life import Captures, Conditions, Life
from flashferry.lab.cml.runtime import ClockRuntime, NodeRuntime
from flashferry.lab.cml.shapes import Shapes
from flashferry.lab.cml.topology import checked_title, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A local account of the stand-in; `is_admin` sees and ends the labs of all. Its password is in the clear."""

    username: str
    password: str = field(repr=False)
    is_admin: bool = True
    user_id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Access:
    """Who may come in, and with what.

    `lifetime_s`: How long tokens live, asked at each use: a switch may change it.
    """

    def __init__(self, users: Iterable[User], *, clock: Callable[[], float], lifetime_s: Callable[[], float]) -> None:
        self._users = {user.username: user for user in users}
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._tokens: dict[str, tuple[User, float]] = {}

    @property
    def users(self) -> tuple[User, ...]:
        """All accounts."""
        return tuple(self._users.values())

    def token(self, username: object, password: object) -> str:
        """Return a new token.

        Raises Refused: 403, as the real one does, not 401: there is no such account, or the password is wrong.
        """
        user = self._users.get(str(username))
        if user is None or not hmac.compare_digest(user.password, str(password)):
            raise refused("wrong_login")
        token = ".".join(secrets.token_urlsafe(24) for _ in range(3))
        self._tokens[token] = user, self._clock()
        return token

    def user(self, header: str | None) -> User:
        """Return whose token an `Authorization` header holds.

        Raises Refused: 401: there is none, it is not ours, it was revoked, or its time is over.
        """
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise refused("no_token")
        owner, issued_at = self._tokens.get(token, (None, 0.0))
        if owner is None or self._clock() - issued_at >= self._lifetime_s():
            raise refused("bad_token")
        return owner

    def revoke(self, header: str | None) -> None:
        """End the token of an `Authorization` header."""
        self._tokens.pop((header or "").partition(" ")[2], None)


OUI = "52:54:00:00:00:00"
"""What system_information says of the addresses that it deals out."""

_TITLE_CLOCK = "Lab at %a %H:%M %p"

BRIDGES = (
    {"label": "System Bridge", "device_name": "bridge0", "forwarding": "BRIDGE"},
    {"label": "NAT", "device_name": "virbr0", "forwarding": "NAT"},
)
"""The external connectors of a fresh controller."""


class Controller:
    """A controller's state. Callers hold `lock` while they use it.

    `folder`: An existing, empty folder of its own, for image files. `runtime`: What runs the nodes; None for nodes that
    are nothing but a clock. `users`: The accounts; the first owns what no account made. `clock`: Seconds, of any
    beginning; never backwards. `began`: The time at which `clock` showed what it shows now.
    """

    def __init__(
        self,
        folder: Path,
        *,
        users: Iterable[User],
        runtime: NodeRuntime | None = None,
        clock: Callable[[], float] = time.monotonic,
        began: datetime | None = None,
    ) -> None:
        self.lock = RLock()
        self.switches = Switches()
        self.definitions = Definitions(folder)
        self.runtime: NodeRuntime = runtime or ClockRuntime(clock=clock)
        self.access = Access(users, clock=clock, lifetime_s=lambda: float(self.switches.value("token_lifetime_s")))
        self.life = Life(self.runtime, self.switches, self.definitions, clock=clock, now=self.now)
        self.conditions = Conditions(self.runtime, self.switches)
        self.captures = Captures(self.runtime, clock=clock, now=self.now)
        self.compute_id = str(uuid.uuid4())
        self.shapes = Shapes(self.life, self.compute_id)
        self.connectors: dict[str, dict[str, Any]] = {str(uuid.uuid4()): dict(each) for each in BRIDGES}
        self.is_registered = True
        self._clock = clock
        self._began = (began or datetime.now(UTC)) - timedelta(seconds=clock())
        self._labs: dict[str, Lab] = {}
        self._gone: list[tuple[float, dict[str, Any]]] = []

    @property
    def version(self) -> tuple[int, ...]:
        """The version's numbers."""
        return tuple(int(part) for part in str(self.switches.value("version")).partition("+")[0].split("."))

    @property
    def schema(self) -> str:
        """The schema in which it writes topologies; that 2.9 brought 0.3.0 is not confirmed."""
        return "0.3.0" if self.version >= (2, 9) else "0.2.2"

    @property
    def is_licensed(self) -> bool:
        """Whether nodes may run."""
        return bool(self.switches.value("is_licensed")) and self.is_registered

    def now(self) -> str:
        """Return the time as the interface writes it."""
        return self._time().isoformat(timespec="seconds")

    def labs(self) -> tuple[Lab, ...]:
        """Return all labs."""
        return tuple(self._labs.values())

    def seen_by(self, user: User, *, is_all: bool) -> tuple[Lab, ...]:
        """Return a user's own labs, or all that he may see."""
        return tuple(lab for lab in self._labs.values() if lab.owner_id == user.user_id or (is_all and user.is_admin))

    def lab(self, lab_id: str, user: User) -> Lab:
        """Return a lab, with its events up to now.

        Raises Refused: 404: there is none, or it is a stranger's (what the real one says then is not known).
        """
        lab = self._labs.get(lab_id)
        if lab is None or not (user.is_admin or lab.owner_id == user.user_id):
            raise refused("lab_not_found", lab_id=lab_id)
        self.life.observe(lab)
        return lab

    def create(self, user: User, *, title: object = None, description: str = "", notes: str = "") -> Lab:
        """Make an empty lab; without a title it gets one with the time."""
        lab = Lab(
            lab_id=new_id(),
            title=checked_title(self._time().strftime(_TITLE_CLOCK) if title is None else title),
            description=description,
            notes=notes,
            owner_id=user.user_id,
            owner=user.username,
            created=self.now(),
            modified=self.now(),
            born_at=self._clock(),
        )
        self._labs[lab.lab_id] = lab
        self.life.note(lab, "ADD", "LAB", lab.lab_id)
        return lab

    def take(self, text: str, user: User, *, title: str | None) -> Lab:
        """Make a lab from a topology. Raises Refused: 400: it is none that may be imported; then no lab is made."""
        given = parse(text, title=title, definitions=self.definitions, version=self.version)
        head = given.lab
        lab = self.create(user, title=head.title, description=head.description or "", notes=head.notes or "")
        fill(lab, given, self.definitions)
        self.conditions.take_imported(lab)
        for kind, ids in (("NODE", lab.nodes), ("LINK", lab.links)):
            for each in ids:
                self.life.note(lab, "ADD", kind, each)
        return lab

    def delete(self, lab: Lab) -> None:
        """Delete a stopped and wiped lab. Raises Refused: it is not."""
        self.life.check_deletable(lab)
        tile = self.tile(lab)
        del self._labs[lab.lab_id]
        self.life.forget(lab)
        self._gone.append((self._clock(), tile))

    def counted(self) -> int:
        """Return how many licensed nodes run, those of others that a switch made up included."""
        return sum(self.life.counted(lab) for lab in self._labs.values()) + int(self.switches.value("others_started"))

    def tiles(self, user: User) -> dict[str, dict[str, Any]]:
        """Return ``populate_lab_tiles``, which is behind: new labs are missing and deleted ones linger for a while."""
        seen_at = self._clock() - self.switches.value("tiles_lag_s")
        shown = [self.tile(lab) for lab in self.seen_by(user, is_all=True) if lab.born_at <= seen_at]
        shown += [tile for at, tile in self._gone if at > seen_at]
        return {tile["id"]: tile for tile in shown}

    def tile(self, lab: Lab) -> dict[str, Any]:
        """Return what a page of all labs shows of one."""
        nodes = [
            {key: value for key, value in self.shapes.node(lab, node).items() if key not in {"interfaces", "tags"}}
            for node in lab.nodes.values()
        ]
        links = [self.shapes.link(lab, link) for link in lab.links.values()]
        return {**self.shapes.lab(lab), "topology": {"nodes": nodes, "links": links}}

    def expire_gone(self) -> None:
        """Forget of deleted labs what no tile shows any more."""
        seen_at = self._clock() - self.switches.value("tiles_lag_s")
        self._gone = [(at, tile) for at, tile in self._gone if at > seen_at]

    def uptime_s(self) -> float:
        """Return the seconds that its clock shows, for figures that grow."""
        return self._clock()

    def _time(self) -> datetime:
        return self._began + timedelta(seconds=self._clock())
