"""A running stand-in controller in the caller's process, with an authority of its own."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashferry.lab.authority import Authority, ServerCertificate
from flashferry.lab.cml.access import User
from flashferry.lab.cml.clock_runtime import BootTimes, ClockRuntime
from flashferry.lab.cml.controller import Controller
from flashferry.lab.cml.faults import Switches
from flashferry.lab.cml.runtime import NodeRuntime
from flashferry.lab.cml.server import Exchange, Web, serving

USERNAME = "admin"
"""The administrator."""

PASSWORD = "standin"  # noqa: S105
"""The password of every account."""

STRANGER = "stranger"
"""An account without rights over others' labs."""

QUICK = BootTimes(queued_s=0.05, started_s=0.1, stagger_s=0.02)
"""Boot times for tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a controller is to those that speak TLS with it; may be used by several, one after another.

    Attributes:
        ca_file: The certificate of its authority, PEM.
        server: Its own certificate and key.
    """

    ca_file: Path
    server: ServerCertificate


def new_identity(folder: Path, *addresses: str) -> Identity:
    """Write a new authority's certificate and one for these addresses and ``localhost`` into a folder."""
    authority = Authority("CML stand-in CA")
    ca_file = folder / "ca.pem"
    ca_file.write_text(authority.pem, encoding="utf-8")
    hosts = list(dict.fromkeys([*addresses, "localhost", "127.0.0.1"]))
    return Identity(ca_file=ca_file, server=authority.issue(folder, hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningController:
    """A stand-in that answers.

    Attributes:
        url: ``https://HOST:PORT``.
        ca_file: The certificate of its authority, PEM.
        folder: Its own: `images` holds what was uploaded.
        username: The administrator.
        password: Of every account.
        control: Where its switches are turned from outside: ``http://HOST:PORT``, or the path of a unix socket.
        controller: Its state, to look at; hold its lock.
        web: Its exchanges.
    """

    url: str
    ca_file: Path
    folder: Path
    username: str
    password: str
    control: str
    controller: Controller
    web: Web

    @property
    def faults(self) -> Switches:
        """Its switches."""
        return self.controller.switches

    @property
    def exchanges(self) -> Sequence[Exchange]:
        """What was asked and answered so far."""
        return tuple(self.web.exchanges)


@contextlib.contextmanager
def standin_controller(
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    runtime: NodeRuntime | None = None,
    version: str | None = None,
    control_at: tuple[str, int] | Path = ("127.0.0.1", 0),
    folder: Path | None = None,
    identity: Identity | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RunningController]:
    """Serve a controller in the caller's network namespace until the block ends.

    Args:
        address: Where to listen; the certificate is for it and for ``localhost``.
        port: 0 for a free one.
        runtime: What runs the nodes, closed at the end; None for nodes that boot in a moment and are but a clock.
        version: The controller's; None for the switch's default.
        control_at: Where switches are turned: host and port, or a path for a unix socket.
        folder: An existing folder for its certificates and image files; None for one that goes at the end.
        identity: Its certificates; None for new ones, which takes a moment.
        clock: Its seconds, of any beginning; never backwards. A runtime that is given has its own.
    """
    with contextlib.ExitStack() as stack:
        home = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cml-standin-")))
        images, spool = home / "images", home / "spool"
        images.mkdir(exist_ok=True)
        spool.mkdir(exist_ok=True)
        nodes: NodeRuntime = runtime or ClockRuntime(QUICK, clock=clock)
        stack.callback(nodes.close)
        users = [
            User(username=USERNAME, password=PASSWORD),
            User(username=STRANGER, password=PASSWORD, is_admin=False),
        ]
        controller = Controller(images, users=users, runtime=nodes, clock=clock)
        controller.switches.set(version=version)
        shown = identity or new_identity(home, address)
        web = Web(controller=controller, spool=spool)
        opened, control = stack.enter_context(serving(web, (address, port), shown.server.context(), control_at))
        yield RunningController(
            url=f"https://{address}:{opened}",
            ca_file=shown.ca_file,
            folder=home,
            username=USERNAME,
            password=PASSWORD,
            control=control,
            controller=controller,
            web=web,
        )
