"""Play a case: start the devices, run the controllers' commands, strike at the moments, look."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import asyncssh

from tests.adversary.case import Case, Step
from tests.adversary.controller import LONGEST_COMMAND_S, Controller, Process, Zygote, surroundings
from tests.adversary.finding import Finding, Held, Said
from tests.adversary.kinds import STALE_JOURNAL
from tests.adversary.leaks import leaks, whole
from tests.adversary.router.configuration import Configuration, parsed
from tests.adversary.router.device import Device, DeviceSight
from tests.adversary.router.knobs import Knobs
from tests.adversary.router.platforms import MODELS, PLATFORMS
from tests.adversary.router.terminal import Passage
from tests.adversary.router.world import Access, Loop, World
from tests.patience import until

IMAGES = {"a": "newimage-universalk9.bin", "b": "otherimage-universalk9.bin", "c": "newimage-universalk9.bin"}
COPY = "c"
"""The controller with a copied journal."""

_ADDRESSES = itertools.count(1)
_WORK_OF_INTERFACE = {"xe": "GigabitEthernet0/0/0", "ios": "FastEthernet0/0", "stack": "GigabitEthernet1/0/1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A case that was played."""

    case: Case
    found: Finding
    transcript: tuple[Passage, ...]
    secrets: tuple[str, ...]


class Ground:
    """Where cases are played: one loop for all routers, one zygote for all commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = Loop()
        self.zygote = Zygote(folder)
        self.key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)

    def close(self) -> None:
        """End both."""
        self.zygote.close()
        self.loop.close()

    def play(self, case: Case) -> Played:
        """Play a case in a folder of its own, which is gone afterwards."""
        folder = self.folder / f"case-{case.seed}-{next(_ADDRESSES)}"
        folder.mkdir()
        try:
            return _Play(self, case, folder).play()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def play_all(self, cases: Iterable[Case], *, jobs: int) -> Iterator[Played]:
        """Play cases, several at a time; each is yielded as its turn comes."""
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            yield from pool.map(self.play, cases)


@contextlib.contextmanager
def open_ground(folder: Path) -> Iterator[Ground]:
    """Open a ground for as long as the block runs."""
    ground = Ground(folder)
    try:
        yield ground
    finally:
        ground.close()


class _Play:
    def __init__(self, ground: Ground, case: Case, folder: Path) -> None:
        self._ground = ground
        self._case = case
        self._folder = folder
        self._dice = Random(f"names {case.seed}")
        self._images = {IMAGES[name]: Random(f"{case.seed} {name}").randbytes(case.image_bytes) for name in ("a", "b")}
        self._access = _access(self._dice, needs_enable=case.start.needs_enable)
        self._community = _word(self._dice, "Comm")
        self._struck: set[str] = set()
        self._world = self._made_world()
        self._controllers = {name: self._controller(name) for name in IMAGES}
        self._surroundings = b""
        self._said: list[Said] = []
        self._number = itertools.count(1)

    # Before.

    def _made_world(self) -> World:
        case = self._case
        knobs = Knobs(dice=case.seed, flash_bytes_per_s=case.flash_bytes_per_s, **case.knobs)
        hostname = self._dice.choice(("r1", "edge-7", "BRANCH-ROUTER-WITH-A-LONG-NAME", "sw-core-1"))
        names = [hostname] + ([f"{hostname}-b"] if case.start.twin in {"hostname", "both"} else [hostname])
        serials = [_serials(self._dice, case), _serials(self._dice, case)]
        if case.start.twin == "hostname":
            serials[1] = serials[0]
        devices = [
            self._device(letter, knobs, names[number], serials[number])
            for number, letter in enumerate("AB"[: 2 if case.start.twin else 1])
        ]
        for behaviour in case.behaviours:
            if behaviour.stock:
                self._struck.add(behaviour.name)
        return World(
            access=self._access,
            devices=devices,
            acts=[act for behaviour in case.behaviours for act in behaviour.acts],
            images=self._images,
            key=self._ground.key,
            struck=self._struck,
        )

    def _device(self, letter: str, knobs: Knobs, hostname: str, serials: tuple[str, ...]) -> Device:
        platform = PLATFORMS[self._case.start.platform]
        text = platform.stock.format(
            hostname=hostname,
            serial=serials[0],
            username=self._access.username,
            privilege=15 if self._access.is_privileged else 1,
            community=self._community,
        )
        stock = parsed(text, ranks=platform.ranks, on_by_default=knobs.on_by_default)
        self._add_own_lines(stock, is_twin=letter == "B")
        return Device(
            name=letter,
            platform=platform,
            model=MODELS[platform.name],
            knobs=knobs,
            serials=serials,
            stock=stock,
            strike=self._struck.add,
        )

    def _add_own_lines(self, stock: Configuration, *, is_twin: bool) -> None:
        for line in self._case.start.lines:
            stock.put(line)
        if is_twin:
            stock.put("ip tcp synwait-time 25")
        if self._case.start.has_archive:
            stock.put("archive", (" path flash:saved", " maximum 10"))
        for behaviour in self._case.behaviours:
            for line, below in behaviour.stock:
                stock.put(line, below)

    def _controller(self, name: str) -> Controller:
        interface = _WORK_OF_INTERFACE[self._case.start.platform] if self._case.source_interface else ""
        made = Controller(
            name=name,
            folder=self._folder / name,
            access=self._access,
            by_environment=self._case.credentials_by_environment,
            source_interface=interface,
        )
        made.settle()
        (made.folder / IMAGES[name]).write_bytes(self._images[IMAGES[name]])
        return made

    # What happens.

    def play(self) -> Played:
        """Play."""
        started = time.monotonic()
        self._ground.loop.run(self._world.start())
        try:
            self._go_on(list(self._case.steps))
            self._read_up()
            self._ground.loop.call(self._world.fast_forward)
            at_the_end = self._sight()
        finally:
            self._ground.loop.run(self._world.stop())
        held = self._held()
        secrets = self._secrets()
        found = Finding(
            said=tuple(self._said),
            at_the_end=at_the_end,
            held=held,
            images={name: hashlib.sha512(content).hexdigest() for name, content in self._images.items()},
            leaks=tuple(leaks(self._places(), secrets)),
            struck=frozenset(self._struck - {""}),
            is_calm=not self._case.behaviours,
            seconds=time.monotonic() - started,
        )
        return Played(
            case=self._case,
            found=found,
            transcript=tuple(self._world.transcript.passages),
            secrets=tuple(secrets.values()),
        )

    def _go_on(self, steps: list[Step]) -> None:
        while steps:
            step = steps.pop(0)
            if step.beside_at and steps:
                self._beside(step, steps.pop(0))
            else:
                self._run(step)

    def _read_up(self) -> None:
        """Have the first controller tell of it all once more, as people read it, from its journal alone."""
        if self._controllers["a"].last_run():
            self._run(Step(verb="report"))
            self._run(Step(verb="status"))

    def _beside(self, one: Step, other: Step) -> None:
        """Run two commands at once: the second begins at a moment of the first, or when that has ended."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            first = pool.submit(self._run, one, is_alone=False)
            until(lambda: first.done() or self._has_come(one.beside_at), f"{one.beside_at}, or the end of the command")
            self._run(other, is_alone=False)
            first.result()

    def _has_come(self, moment: str) -> bool:
        passages = self._world.transcript.passages
        return any((one.kind, one.text) == ("moment", moment) for one in passages)

    def _held(self) -> tuple[Held, ...]:
        """Return what the journals hold; a copy holds nothing by itself."""
        return tuple(one for name, controller in self._controllers.items() if name != COPY for one in controller.held())

    def _sight(self) -> tuple[DeviceSight, ...]:
        return self._ground.loop.call(self._world.sight)

    def _run(self, step: Step, *, is_alone: bool = True) -> None:
        controller = self._controllers[step.controller]
        number = next(self._number)
        if step.mended:
            self._ground.loop.call(self._world.come_back)
        if step.verb == "copy":
            if self._controllers["a"].state.exists():
                shutil.copytree(self._controllers["a"].state, controller.state)
            return
        before, held_before, held_by_copy = self._sight(), self._held(), self._controllers[COPY].held()
        if step.controller == COPY and held_by_copy:
            self._struck.add(STALE_JOURNAL.name)
        arguments = self._arguments(step, controller)
        if arguments is None:
            return
        self._world.transcript.note(0, "command", f"{controller.name}$ flashferry {' '.join(arguments)}")
        process = self._ground.zygote.start(controller.job(number, arguments))
        listener = self._listener(step, process)
        self._ground.loop.call(lambda: self._world.listeners.append(listener))
        ending, code = process.wait(LONGEST_COMMAND_S)
        self._ground.loop.call(lambda: self._world.listeners.remove(listener))
        _wait_for_children(process)
        self._world.transcript.note(0, "command", f"{controller.name}: {ending}, exit code {code}")
        stdout, stderr = (_text(controller.folder / f"{number}.{name}") for name in ("stdout", "stderr"))
        self._said.append(
            Said(
                controller=controller.name,
                verb=step.verb,
                ending=ending,
                code=code,
                document=_document(stdout),
                stdout=stdout,
                stderr=stderr,
                image=IMAGES[controller.name],
                held=controller.held(),
                held_before=held_before,
                copy_held_before=held_by_copy if step.controller == COPY else (),
                decides=step.decides,
                before=before,
                after=self._sight(),
                is_alone=is_alone,
            )
        )

    def _listener(self, step: Step, process: Process) -> Any:
        def listen(moment: str) -> None:
            if moment == "copy":
                self._surroundings += surroundings(process.pid)
            if moment == step.killed_at:
                process.signal(signal.SIGKILL)
            if moment == step.interrupted_at:
                process.signal(signal.SIGINT)

        return listen

    def _arguments(self, step: Step, controller: Controller) -> list[str] | None:
        """Return a command line; None where there is nothing to go on with."""
        common = ["--inventory", "inventory", "--json"]
        image = ["--image", IMAGES[controller.name]]
        if step.verb == "stage":
            options = self._case.options[controller.name]
            return ["stage", *common, *image, *options, "--port", "0", "--events", "events.jsonl"]
        if step.verb == "resume":
            run = controller.last_run()
            return ["stage", *common, "--resume", run, "--port", "0"] if run else None
        if step.verb == "report":
            return ["report", "latest"]
        if step.verb == "status":
            return ["status"]
        if step.verb == "probe":
            return ["probe", *common, "--image-mb", "0.2", "--seconds", "2", "--port", "0"]
        if step.decides:
            return ["recover", *common, step.decides, "r1"]
        return [step.verb, *common, *(image if step.verb == "check" else [])]

    # Afterwards.

    def _secrets(self) -> dict[str, str]:
        access = self._access
        found = {
            "the password": access.password,
            "the enable secret": access.enable_secret,
            "the SNMP community": self._community,
        }
        for number, (user, password) in enumerate(sorted(self._world.tickets), start=1):
            found |= {f"user of ticket {number}": user, f"password of ticket {number}": password}
        return found

    def _places(self) -> Iterator[tuple[str, bytes]]:
        yield "the process list or a child's environment", self._surroundings
        for controller in self._controllers.values():
            for path in sorted(controller.folder.rglob("*")):
                if path.is_file() and path.parent.name != "inventory" and path.name not in self._images:
                    yield f"{path.relative_to(self._folder)}", whole(path)


def _wait_for_children(process: Process) -> None:
    """Wait until a command's helpers are gone too: what they still do is the command's doing."""
    until(lambda: not Path(f"/proc/{process.pid}").exists(), "the end of the command's helpers")


def _access(dice: Random, *, needs_enable: bool) -> Access:
    process = os.getpid() % 60_000
    number = next(_ADDRESSES)
    return Access(
        address=f"127.{40 + process % 200}.{process // 200 % 250}.{number % 250 + 1}",
        username="ferry",
        password=_word(dice, "Login"),
        enable_secret=_word(dice, "Enable"),
        is_privileged=not needs_enable,
    )


def _word(dice: Random, head: str) -> str:
    return head + "".join(dice.choices("abcdefghkmnpqrstuvwxyz23456789", k=12))


def _serials(dice: Random, case: Case) -> tuple[str, ...]:
    members = PLATFORMS[case.start.platform].members
    return tuple("FOC" + "".join(dice.choices("ABCDEFGHJKLMNPRSTUVWXYZ0123456789", k=8)) for _ in range(members))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _document(stdout: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        found = json.loads(stdout)
        return found if isinstance(found, dict) else None
    return None
