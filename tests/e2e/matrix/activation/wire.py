"""Does something at given moments of an activation: strikes with the column's fault, and ends its own process."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from netmiko import BaseConnection

from flashferry.lab.state import ask
from flashferry.model.activation import Activation
from flashferry.monitor.events import Event
from flashferry.store.journal import Journal
from tests.e2e.matrix.activation.cells import Job
from tests.e2e.matrix.activation.points import AtCommand, AtNote, AtPhase, AtRelease, AtRestart, Trigger
from tests.patience import until

_LOOK_EVERY_S = 0.03
Act = Callable[[], object]


class Wire:
    """Watches for triggers; each has its act done once, in the order in which they are given.

    Args:
        job: What is done.
        acts: Triggers, and what is done at them.
    """

    def __init__(self, job: Job, acts: tuple[tuple[Trigger, Act], ...]) -> None:
        self._job = job
        self._acts = list(acts)
        self._seen: dict[str, int] = {}

    def watch(self) -> None:
        """See what goes to the device, where netmiko sends it, and when it goes down."""
        patch.object(BaseConnection, "write_channel", self._writer()).start()
        for trigger, _ in self._acts:
            if isinstance(trigger, AtRestart):
                threading.Thread(target=self._look, args=(trigger,), daemon=True).start()

    def event(self, event: Event) -> None:
        """Note an event of the run."""
        self._pull(lambda trigger: isinstance(trigger, AtNote) and event.text.startswith(trigger.text))

    def journal(self, journal: Journal) -> Journal:
        """Return a journal with the wire in it."""
        acquire, enter, release = journal.acquire_lease, journal.activating, journal.release

        def acquired(*arguments: Any, activation: Activation, **named: Any) -> None:
            acquire(*arguments, activation=activation, **named)
            self._phase(activation)

        def entered(run_id: str, host: str, activation: Activation) -> None:
            enter(run_id, host, activation)
            self._phase(activation)

        def released(*arguments: Any, **named: Any) -> None:
            release(*arguments, **named)
            self._pull(lambda trigger: isinstance(trigger, AtRelease))

        for name, call in (("acquire_lease", acquired), ("activating", entered), ("release", released)):
            setattr(journal, name, call)
        return journal

    def _phase(self, activation: Activation) -> None:
        self._pull(lambda trigger: trigger == AtPhase(phase=activation.phase))

    def _pull(self, fits: Callable[[Trigger], bool]) -> None:
        for one in [one for one in self._acts if fits(one[0])]:
            self._acts.remove(one)
            one[1]()

    def _writer(self) -> Callable[[BaseConnection, str], None]:
        send = BaseConnection.write_channel

        def write_channel(connection: BaseConnection, out_data: str) -> None:
            patterns = {trigger.pattern for trigger, _ in self._acts if isinstance(trigger, AtCommand)}
            hits = {pattern for pattern in patterns if re.search(pattern, out_data)}
            for pattern in hits:
                self._seen[pattern] = self._seen.get(pattern, 0) + 1
            self._pull(lambda trigger: self._is_now(trigger, hits, after=False))
            send(connection, out_data)
            self._pull(lambda trigger: self._is_now(trigger, hits, after=True))

        return write_channel

    def _is_now(self, trigger: Trigger, hits: set[str], *, after: bool) -> bool:
        return (
            isinstance(trigger, AtCommand)
            and trigger.pattern in hits
            and trigger.after is after
            and trigger.nth == self._seen[trigger.pattern]
        )

    def _look(self, trigger: AtRestart) -> None:
        def has_restarted() -> bool:
            happened = ask(self._job.control, {"do": "happened", "name": self._job.device})["happened"]
            return sum(one.startswith("restart: ") for one in happened) >= trigger.nth

        until(has_restarted, f"restart {trigger.nth}", poll_s=_LOOK_EVERY_S)
        self._pull(lambda one: one == trigger)
