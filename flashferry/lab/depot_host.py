"""The process of a depot host: its namespace, and the LAN that joins it with the devices of its site.

Run as ``python -m flashferry.lab.depot_host`` by `flashferry.lab.world`; settings come by standard input. It makes the
namespace before anything else and reports to the owner; the site's link joins it with the core, and then it joins
itself with the site. The programs of a depot are put into it from without (`flashferry.lab.world.in_depot`).
"""

from __future__ import annotations

import contextlib
import select
import signal
from typing import Any

from flashferry.lab import helper
from flashferry.lab.link import profile_from_json
from flashferry.lab.namespaces import Ends, set_up_lan, unshare_network
from flashferry.lab.relay import Relay, carry


def main() -> None:
    """Be a depot host until the owner ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    settings = helper.read_settings()
    owner = helper.tie_to_owner(settings)
    unshare_network()
    helper.report(has_namespace=True)
    with contextlib.suppress(EOFError):
        settings |= helper.read_settings()  # the link is up
        _serve(settings, set_up_lan(settings), owner)


def _serve(settings: dict[str, Any], ends: Ends | None, owner: int) -> None:
    """Carry the packets of the LAN, or wait where the kernel does."""
    if ends is None:
        helper.report(ready=True)
        select.select([owner, 0], (), ())
        return
    profile = profile_from_json(settings["profile"])
    carry(Relay(ends, profile=profile, seed=settings["seed"]), settings["control"], owner)


if __name__ == "__main__":
    main()
