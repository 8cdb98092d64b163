"""The stand-in's programs, its state, and its faults as switches."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = ("containerlab", "docker")
VERSION = "0.79.0"

SWITCHES: Mapping[str, tuple[object, str]] = {
    "version": (VERSION, "What `containerlab version` tells."),
    "deploy_fails": (None, "`deploy` ends with this text once it has created its first container."),
    "destroy_leaves": (0, "So many times `destroy` removes nothing; it ends with 0 all the same."),
    "netem_refused": (None, "`tools netem set` ends with this text."),
    "netem_wrong": (None, "These keys of what `tools netem show` tells are others than were set."),
    "inspect_fails": (0, "So many times `inspect` ends with an error."),
    "slow_s": (0.0, "Each command waits so long first."),
    "boot_s": (0.0, "A virtual machine is healthy so many seconds after it was deployed."),
    "exited": ([], "Nodes whose containers have ended."),
    "docker_down": (False, "docker's daemon does not answer."),
    "console": ("", "What a container says beside its boot messages."),
}
"""What can be broken: its name, its usual value, and what it does."""

_ROOT = Path(__file__).resolve().parents[3]
"""Where the package is found from, by programs that run by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """The programs, and a file that holds what they remember.

    Attributes:
        folder: `bin` holds the programs, to be put on PATH; `state.json` all that they know.
    """

    folder: Path

    @property
    def programs(self) -> Path:
        """The folder to put on PATH."""
        return self.folder / "bin"

    @contextmanager
    def state(self) -> Iterator[dict[str, Any]]:
        """Yield what the programs remember; changes are kept. One holds it at a time."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.folder / "state.json"
            state = json.loads(path.read_text())
            yield state
            written = path.with_suffix(".new")
            written.write_text(json.dumps(state, indent=1))
            written.replace(path)

    def set(self, **switches: Any) -> None:
        """Turn switches; all of them are in `SWITCHES`.

        Raises:
            KeyError: There is no such switch.
        """
        with self.state() as state:
            for name, value in switches.items():
                if name not in SWITCHES:
                    raise KeyError(name)
                state["switches"][name] = value

    def add_image(self, name: str, **labels: str) -> None:
        """Have docker know an image."""
        with self.state() as state:
            state["images"][name] = labels

    def calls(self) -> list[list[str]]:
        """Return what was called so far: program and arguments."""
        with self.state() as state:
            return list(state["calls"])

    def labs(self) -> dict[str, Any]:
        """Return the labs that there are."""
        with self.state() as state:
            return dict(state["labs"])


def standin(folder: Path) -> StandIn:
    """Write the programs into a folder, with no lab and no image."""
    import ruamel.yaml

    libraries = Path(ruamel.yaml.__file__).resolve().parents[2]
    made = StandIn(folder=folder)
    made.programs.mkdir(parents=True)
    usual = {name: value for name, (value, _) in SWITCHES.items()}
    empty = {"labs": {}, "images": {}, "calls": [], "switches": usual}
    (folder / "state.json").write_text(json.dumps(empty))
    for program in PROGRAMS:
        path = made.programs / program
        path.write_text(
            # Without `site`, whose work is most of such a program's time.
            f"#!{sys.executable} -S\n"
            "import sys\n"
            f"sys.path[:0] = {[str(_ROOT), str(libraries)]!r}\n"
            "from flashferry.lab.containerlab.standin import run\n"
            f"raise SystemExit(run({program!r}, {str(folder)!r}, sys.argv[1:]))\n"
        )
        path.chmod(0o755)
    return made


def run(program: str, folder: str, words: list[str]) -> int:
    """Be one of the programs; return its exit code."""
    from flashferry.lab.containerlab import clab, docker

    held = StandIn(folder=Path(folder))
    with held.state() as state:
        state["calls"].append([program, *words])
        slow_s = float(state["switches"]["slow_s"])
    # Nobody else waits for one that is slow.
    time.sleep(slow_s)
    with held.state() as state:
        state["leaked"] = sorted(set(state.get("leaked", [])) | {name for name in os.environ if _is_ours(name)})
        act = {"containerlab": clab.act, "docker": docker.act}[program]
        return act(state, words)


def say(text: str) -> None:
    """Tell on standard output."""
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    """Tell on standard error."""
    sys.stderr.write(f"{text}\n")


def _is_ours(name: str) -> bool:
    """Return whether a variable should not have been handed on."""
    return name.startswith(("FLASHFERRY_", "VIRL2_")) or (name.startswith("CLAB_") and name != "CLAB_VERSION_CHECK")
