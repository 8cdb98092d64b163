"""Define what orders are carried out with, and the result of an order."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from flashferry.api import FleetOptions, whole_fleet
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.word_sender import WordSender
from flashferry.sites.settings import AgentSettings
from flashferry.store.sites.agents import AgentDatabase


class Bench(Struct, frozen=True, kw_only=True):
    """What orders are carried out with; `teller` sends reports, `ending` is set when the agent is to end."""

    settings: AgentSettings
    database: AgentDatabase
    depot: SiteDepot
    teller: WordSender
    ending: threading.Event

    def devices(self) -> frozenset[str]:
        """Return the names of all devices in the site's inventory.

        Raises:
            ConfigInvalid: The inventory is wrong.
        """
        options = FleetOptions(inventory=self.settings.runs.inventory, state_dir=self.settings.state)
        return frozenset(whole_fleet(options).inventory.hosts)


class End(Struct, frozen=True, kw_only=True):
    """The result of an order; `exit_code` is None if no command reported one, `data` are more details."""

    exit_code: int | None
    sentence: str
    data: Mapping[str, Any]
