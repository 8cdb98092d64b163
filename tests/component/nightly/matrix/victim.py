"""A night in a process of its own, to be killed in a step of it.

`python victim.py FILE STATE STEP`, with the controller's login in the environment. When the import or the step to be
killed in begins, it writes `at-STEP` beside FILE and waits for `go-STEP`; in a step that asks no controller it then
stays, and writes `held`.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from flashferry.cli.program import build
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.nightly.description.logins import controller_access
from flashferry.nightly.description.reading import load_description
from flashferry.nightly.night import NightStep, StepName
from flashferry.nightly.steps import NightParts
from tests.component.nightly.cml.standing import CLOCK
from tests.component.nightly.matrix.ground import HOSTS
from tests.component.nightly.matrix.player import played_with
from tests.patience import until
from tests.unit.nightly.fakes import FakeProduct, FakeRouters


class Pausing:
    """Waits at the beginning of steps until it may go on."""

    def __init__(self, folder: Path, step: str) -> None:
        self._folder, self._waits_at = folder, {StepName.IMPORT.value, step}
        self.now = ""

    def began(self, name: StepName) -> None:
        self.now = name.value
        if name.value in self._waits_at:
            (self._folder / f"at-{name}").touch()
            until((self._folder / f"go-{name}").exists, f"the order to begin {name}")

    def ended(self, step: NightStep) -> None:
        pass

    def stay(self) -> None:
        """Stay here until somebody ends it, if this is the step."""
        if self.now in self._waits_at - {StepName.IMPORT.value}:
            (self._folder / "held").touch()
            threading.Event().wait()


class StayingProduct(FakeProduct):
    """A product whose commands can be held."""

    pausing: Pausing

    def run(self, *given: Any, **more: Any) -> Any:
        self.pausing.stay()
        return super().run(*given, **more)

    def killed(self, *given: Any, **more: Any) -> Any:
        self.pausing.stay()
        return super().killed(*given, **more)


class StayingRouters(FakeRouters):
    """Routers that hold whoever reads their configurations when the night is judged."""

    pausing: Pausing

    def configurations(self, *given: Any) -> Any:
        if self.pausing.now == StepName.JUDGE:
            self.pausing.stay()
        return super().configurations(*given)


def main() -> None:
    file, state, step = sys.argv[1:]
    access = controller_access(load_description(Path(file)).controller)
    pausing = Pausing(Path(file).parent, step)
    routers, product = StayingRouters(), StayingProduct(hosts=HOSTS)
    routers.pausing = product.pausing = pausing

    def change(parts: NightParts) -> dict[str, Any]:
        return {"watcher": pausing, "routers": routers, "product": lambda scratch, inventory: product}

    words = ("nightly", "run", file, "--state-dir", state, "--json")
    with played_with(backend=lambda: CmlBackend(access, clock=CLOCK, poll_s=0.2), clock=CLOCK, change=change):
        CliRunner().invoke(build(), words)


main()
