"""A night's process is killed with SIGKILL in each step; then `flashferry nightly reap` leaves nothing of ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flashferry.nightly.night import StepName
from tests.component.nightly.cml.standing import NEVER_S
from tests.component.nightly.matrix.ground import Ground
from tests.component.nightly.matrix.player import write_description
from tests.component.nightly.matrix.rules import PRODUCT
from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[4]
STAYS = (*PRODUCT, StepName.JUDGE)
"""Steps that ask no controller: the process itself stays in them. In the others an answer is late, to an order done."""
QUICK = {StepName.IMPORT}


def _await(what: str, is_so: Callable[[], bool], victim: subprocess.Popen[bytes], ground: Ground) -> None:
    def has_come() -> bool:
        # Its process has a clock of its own, on which waiting is free as well.
        ground.clock.sleep(2.0)
        return is_so() or victim.poll() is not None

    until(has_come, what)
    assert is_so(), f"it ended before {what}"


def _kill_in(step: StepName, ground: Ground, file: Path, environment: dict[str, str]) -> None:
    """Play a night in a process of its own and kill it in a step."""
    folder = file.parent
    victim = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("victim.py")), str(file), str(folder / "state"), step],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
    )
    try:
        for name in dict.fromkeys((StepName.IMPORT, step) if step in _behind_import() else (step,)):
            _await(f"it came to {name}", (folder / f"at-{name}").exists, victim, ground)
            if name is StepName.IMPORT:
                ground.begin_another()
            if name is step and step not in STAYS:
                ground.standin.faults.set(slow_answer={"seconds": NEVER_S, "count": 1})
            (folder / f"go-{name}").touch()
        if step in STAYS:
            _await("it was held", (folder / "held").exists, victim, ground)
        else:
            _await("it was held", lambda: bool(ground.standin.web.held), victim, ground)
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.wait(timeout=PATIENCE_S)
    ground.standin.faults.clear()
    ground.clock.sleep(NEVER_S)
    until(lambda: not ground.standin.web.held, "the late answer")


def _behind_import() -> tuple[StepName, ...]:
    return tuple(StepName)[tuple(StepName).index(StepName.IMPORT) :]


@pytest.mark.parametrize(
    "step", [pytest.param(one, marks=() if one in QUICK else pytest.mark.soak) for one in StepName], ids=str
)
def test_what_a_killed_night_leaves_the_next_reap_removes(ground, tmp_path, step):
    """A dead night's lab goes, too; a stranger's and that of a night that runs stay as they are, untouched."""
    file = write_description(tmp_path, ground.standin.url, ground.standin.ca_file)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLASHFERRY_")}
    environment |= {"FLASHFERRY_CML_USERNAME": ground.standin.username, "FLASHFERRY_CML_PASSWORD": ground.password}
    _kill_in(step, ground, file, environment)
    if not ground.running:
        ground.begin_another()
    others = {ground.strangers, ground.running}
    is_made = bool(set(ground.labs()) - others - {ground.dead})
    assert is_made == (step in _behind_import())
    first = len(ground.standin.exchanges)
    words = ("nightly", "reap", str(file), "--state-dir", str(tmp_path / "state"), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "flashferry", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    left = ground.labs()
    assert left.keys() == others
    assert {state for _, state in left.values()} == {"STARTED"}
    orders = [one.path for one in ground.standin.exchanges[first:] if one.method != "GET"]
    assert not [path for path in orders if any(lab in path for lab in others)]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()) + done.stdout + done.stderr
    assert not [one for one in ground.secrets if one.encode() in kept]
