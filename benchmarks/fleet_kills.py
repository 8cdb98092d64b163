"""Runs over 40 devices that are killed and resumed; every violation is printed with the seed that repeats it.

A round is one run: `stage`, killed at a random moment, gone on with by `stage --resume`, killed again, until it comes
to its end. What must hold then:

- every device's outcome is `done` or `already there`, and the file on its flash is the image, byte for byte;
- every configuration, running and startup, is what it was before the round;
- no image was copied twice without need: a further copy to a device is needed only where its flash did not hold the
  whole image when the run was taken up, so a device's file becomes whole exactly once in a round;
- nothing is left: no device in hand, no server of a dead controller.
"""

import os
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.fleet_ground import Controller, FlashWatch, configurations, strays
from benchmarks.report import print_progress
from flashferry.lab.world import World, WorldSpec, start_world
from flashferry.lab.world_spec import load_world, write_inventory
from flashferry.store.stored_run import StoredRun, read_run

WORLD = "fleet-40"
IMAGE_BYTES = 1_200_000
VICTIMS = ("controller", "server", "both")
_LONGEST_RUN_S = 240.0
_LONGEST_AFTER_KILL_S = 300.0
"""A controller that lost its server has restored every device by then, and says so."""


@dataclass(slots=True)
class Tally:
    """What came of all rounds."""

    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    states_at_kill: Counter[str] = field(default_factory=Counter)
    copies_begun: int = 0
    copies_whole: int = 0
    copies_taken_back: int = 0
    devices: int = 0
    resumes: int = 0
    resume_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "rounds": self.rounds,
            "kills": dict(self.kills),
            "states_at_kill": dict(self.states_at_kill.most_common()),
            "devices_staged": self.devices,
            "copies_begun": self.copies_begun,
            "copies_whole": self.copies_whole,
            "copies_taken_back": self.copies_taken_back,
            "resumes": self.resumes,
            "violations": self.violations,
        }


class Round:
    """One run with its kills.

    Args:
        world: The world.
        folder: A folder of its own.
        inventory: The world's inventory.
        seed: Decides when who is killed.
        tally: Where what happens is counted.
    """

    def __init__(self, world: World, folder: Path, inventory: Path, seed: int, tally: Tally) -> None:
        self._world, self._folder, self._inventory, self._tally = world, folder, inventory, tally
        self._dice = random.Random(seed)
        self.seed = seed
        self._image = folder / f"image{seed}.bin"
        self._image.write_bytes(random.Random(f"{seed}/image").randbytes(IMAGE_BYTES))
        self._state = folder / "state"

    def play(self, kills: int) -> int:
        """Play it with at most so many kills; return how many there were."""
        before = configurations(self._world)
        done = 0
        with FlashWatch(self._world, self._image) as flash:
            image = ("--image", str(self._image), "--any-image")  # for five models, and in truth for none
            arguments: tuple[str, ...] = ("stage", *image, "--remove-partial", *self._waves())
            while True:
                controller = Controller(self._world, self._folder, *arguments, "--inventory", str(self._inventory))
                if done >= kills or not self._kill(controller):
                    break
                done += 1
                arguments = self._next(arguments)
            self._finish(controller, arguments)
            time.sleep(0.5)
        self._judge(before, flash)
        return done

    def _waves(self) -> tuple[str, ...]:
        """Every second run goes site by site behind canaries, as runs do by themselves; the others all at once."""
        return () if self.seed % 2 else ("--no-canary", "--wave-by", "all")

    def _next(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Return how to go on: a run that was killed before it had an identifier is simply begun again."""
        run = self._run()
        if run is None:
            return arguments
        self._tally.resumes += 1
        return ("stage", "--resume", run.run_id)

    def _kill(self, controller: Controller) -> bool:
        """Kill at a random moment; False where the run was over before."""
        victim = self._dice.choice(VICTIMS)
        # Some early, in the logins and the first checks, most while copies run.
        moment_s = self._dice.uniform(1.0, 6.0) if self._dice.random() < 0.3 else self._dice.uniform(5.0, 25.0)
        if controller.ended_within(moment_s):
            return False
        # Recovery comes first in a run that is taken up; a server that is to be killed has to be there.
        while victim == "server" and controller.server_pid() is None:
            if controller.ended_within(0.2):
                return False
        run = self._run()
        states = Counter(device.state for device in run.devices) if run is not None else Counter(["no run yet"])
        controller.kill(controller=victim != "server", server=victim != "controller")
        if not controller.ended_within(_LONGEST_AFTER_KILL_S):
            self._complain(f"the controller did not end within {_LONGEST_AFTER_KILL_S:.0f} s of its server's death")
            controller.kill(controller=True, server=True)
        self._tally.kills[victim] += 1
        self._tally.states_at_kill.update(states)
        shown = ", ".join(f"{count} {state}" for state, count in states.most_common())
        print_progress(f"seed {self.seed}: {victim} killed after {moment_s:.1f} s ({shown})")
        return True

    def _finish(self, controller: Controller, arguments: tuple[str, ...]) -> None:
        """Wait for the end; what the death of a server made fail is resumed until nothing is left to do."""
        for _ in range(4):
            if not controller.ended_within(_LONGEST_RUN_S):
                self._complain(f"the run was not over within {_LONGEST_RUN_S:.0f} s: {controller.said()}")
                controller.kill(controller=True, server=True)
            if controller.process.returncode == 0:
                return
            arguments = self._next(arguments)
            print_progress(
                f"seed {self.seed}: exit code {controller.process.returncode}, resumed: {controller.said(300)}"
            )
            controller = Controller(self._world, self._folder, *arguments, "--inventory", str(self._inventory))
        controller.ended_within(_LONGEST_RUN_S)
        if controller.process.returncode != 0:
            self._complain(f"exit code {controller.process.returncode} after all resumes: {controller.said()}")

    def _judge(self, before: dict[str, tuple[str, ...]], flash: FlashWatch) -> None:
        run = self._run()
        if run is None:
            self._complain("no run in the journal")
            return
        for device in run.devices:
            outcome = device.record.get("outcome")
            if outcome not in {"done", "already there"} or device.is_held:
                held = ", held" if device.is_held else ""
                self._complain(
                    f"{device.host}: outcome {outcome}, state {device.state}{held}: {device.record.get('failure')}"
                )
        for host in flash.wrong():
            self._complain(f"{host}: the file on flash is not the image")
        for host, count in flash.whole().items():
            if count != 1:
                self._complain(f"{host}: its file became whole {count} times")
        after = configurations(self._world)
        for host, lines in before.items():
            if after[host] != lines:
                changed = sorted(set(after[host]) ^ set(lines))
                self._complain(f"{host}: its configuration is not what it was: {changed[:5]}")
        for line in strays(self._world):
            self._complain(f"left running: {line}")
        self._tally.devices += len(run.devices)
        self._tally.copies_begun += flash.begun()
        self._tally.copies_whole += sum(flash.whole().values())
        self._tally.copies_taken_back += flash.taken_back()
        self._tally.rounds += 1

    def _run(self) -> StoredRun | None:
        try:
            found = read_run(self._state, "latest")
        except Exception:  # noqa: BLE001 -- before the first run there is no journal to read
            return None
        return found if found.devices and found.devices[0].image in {None, self._image.name} else None

    def _complain(self, text: str) -> None:
        self._tally.violations.append(f"seed {self.seed}: {text}")
        print_progress(f"VIOLATION seed {self.seed}: {text}")


def measure(kills: int, seed: int, *, per_round: int = 6, spec: WorldSpec | None = None) -> dict[str, Any]:
    """Kill so many times, spread over as many runs as it takes; return the tally."""
    tally = Tally()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec or load_world(WORLD)) as world:
        inventory = write_inventory(world, Path(name) / "inventory")
        while tally.kills.total() < kills:
            folder = Path(name) / f"round{seed}"
            folder.mkdir()
            one = Round(world, folder, inventory, seed, tally)
            one.play(min(per_round, kills - tally.kills.total()))
            seed += 1
    took_s = round(time.monotonic() - started)
    return tally.as_json() | {"took_s": took_s, "image_bytes": IMAGE_BYTES, "cpus": os.cpu_count()}
