"""What orders are carried out with, and how one ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flashferry.api import FleetOptions, whole_fleet
from flashferry.sites.agent.depot import SiteDepot
from flashferry.sites.agent.word_sender import WordSender
from flashferry.sites.settings import AgentSettings
from flashferry.store.sites.agents import AgentDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What orders are carried out with.

    Attributes:
        settings: The agent's.
        database: Its database.
        depot: Its site's depot.
        teller: Takes what is to be reported.
        ending: Set when the agent is to end.
    """

    settings: AgentSettings
    database: AgentDatabase
    depot: SiteDepot
    teller: WordSender
    ending: threading.Event

    def devices(self) -> frozenset[str]:
        """Return the names of all devices of the site's own inventory.

        Raises:
            ConfigInvalid: It is wrong.
        """
        options = FleetOptions(inventory=self.settings.runs.inventory, state_dir=self.settings.state)
        return frozenset(whole_fleet(options).inventory.hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an order ended.

    Attributes:
        exit_code: The exit code of what was done last; None where it said none.
        sentence: What that means.
        data: What else there is to report.
    """

    exit_code: int | None
    sentence: str
    data: Mapping[str, Any]
