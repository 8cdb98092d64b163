"""All that the contract suite imports of the product and its lab: a move of modules touches this file alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netmiko import ConnectHandler
from typer.testing import CliRunner

from flashferry import api as library
from flashferry.cli.program import AT_SERVICE, COMMANDS, build, command_named
from flashferry.lab.world import DeviceSpec, SiteSpec, World, WorldSpec, in_core, start_world
from flashferry.model.exit_codes import VERB_MEANINGS, ExitCode
from flashferry.reports.as_json import report_schema
from flashferry.service.api.health import openapi_text
from flashferry.service.app import build_app
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from tests.patience import PATIENCE_S

LIBRARY = library
"""The public entry for scripts."""

_ENTRY = "flashferry.cli.main"
_WIDTH = "100"
_SERVICE = "https://service.example"
_IN_CORE = "flashferry.lab.enter"
_JOURNAL = "journal.sqlite3"


@dataclass(frozen=True)
class Done:
    """A command that ended.

    Attributes:
        code: Its exit code.
        out: Standard output.
        err: Standard error.
    """

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, object]:
        """Return the JSON document on standard output."""
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"no JSON document, exit code {self.code}: {self.out}{self.err}") from None


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which nothing of the user's own counts; state is kept below a folder."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FLASHFERRY_")}
    return own | {
        "COLUMNS": _WIDTH,
        "FLASHFERRY_STATE_DIR": str(folder / "state"),
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "UTC",
        # Where a running lab is found: not anybody else's.
        "XDG_RUNTIME_DIR": str(folder),
    }


def command(*arguments: object, world: World | None = None) -> list[str]:
    """Return the command line that runs flashferry, in front of a world's WAN where one is given."""
    inside = [sys.executable, "-P", "-m", _IN_CORE, str(world.core_pid), "--"] if world is not None else []
    return [*inside, sys.executable, "-P", "-m", "flashferry", *map(str, arguments)]


@contextmanager
def started(
    folder: Path, *arguments: object, world: World | None = None, more: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start flashferry in a folder; it ends with the block."""
    with subprocess.Popen(
        command(*arguments, world=world),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment(folder) | dict(more or {}),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(folder: Path, *arguments: object, world: World | None = None, more: Mapping[str, str] | None = None) -> Done:
    """Run flashferry to its end."""
    with started(folder, *arguments, world=world, more=more) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    return Done(code=process.returncode, out=out, err=err)


def run_each(folder: Path, asked: Mapping[str, Sequence[object]], *, at_s: float | None = None) -> dict[str, Done]:
    """Run many command lines of flashferry to their end, one after the other, and return what became of each.

    Args:
        folder: Where they run, with their state below it.
        asked: Their arguments, by a name.
        at_s: What time it is for them, in seconds since 1970; None for the true one.
    """
    script = Path(__file__).with_name("forks.py")
    done = subprocess.run(
        [sys.executable, "-P", str(script), _ENTRY, *([] if at_s is None else [str(at_s)])],
        input=json.dumps([[str(word) for word in one] for one in asked.values()]),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder) | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=PATIENCE_S * len(asked),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: Done(*one) for name, one in zip(asked, json.loads(done.stdout), strict=True)}


def openapi(folder: Path) -> str:
    """Return what the staging service says of its API."""
    service = Service(state=folder, settings=ServiceSettings(), database=ServiceDatabase(folder))
    return openapi_text(build_app(service).routes)


def help_pages() -> dict[str, str]:
    """Return the whole help of each family and each verb, by its words, and what is shown first of two of them.

    What a remote service takes has names that begin with `at-a-service`.
    """
    at_a_service = {f"at-a-service-{name}": page for name, page in _help_pages("--service", _SERVICE).items()}
    first = {f"first-{words[0]}": _help_page([*words[1:], "--help"]) for words in (["flashferry"], ["stage", "stage"])}
    return _help_pages() | at_a_service | first


def _help_pages(*before: str) -> dict[str, str]:
    names = AT_SERVICE if before else [name for names in COMMANDS.values() for name in names]
    pages = {"flashferry": _help_page([*before, "--help-all"])}
    waiting = [((name,), command_named(name)) for name in names]
    while waiting:
        path, one = waiting.pop()
        pages["-".join(path)] = _help_page([*before, *path, "--help-all"])
        known = getattr(one, "later", {}) or getattr(one, "commands", {})
        children = [
            (name, one.get_command(None, name)) if name in getattr(one, "later", {}) else (name, known[name])
            for name in known
        ]
        waiting += [
            ((*path, name), child)
            for name, child in children
            if before or not getattr(child.callback, "only_at_service", False)
        ]
    return pages


def _help_page(words: Sequence[str]) -> str:
    done = CliRunner().invoke(build(), list(words), prog_name="flashferry", env=environment(Path()))
    assert done.exit_code == 0, done.output
    return done.stdout


def exit_codes() -> dict[str, dict[str, str]]:
    """Return what each exit code means, by verb; `-` for verbs that have no words of their own."""
    own = {verb: {str(int(code)): text for code, text in of.items()} for verb, of in VERB_MEANINGS.items()}
    return {"-": {str(int(code)): f"{code.name}: {code.meaning}" for code in ExitCode}} | own


def schema_of_report() -> dict[str, object]:
    """Return the JSON Schema that the report's documentation gives."""
    return report_schema()


@contextmanager
def two_routers() -> Iterator[World]:
    """Start two routers, an IOS-XE and an IOS one, at two sites on a LAN."""
    north = SiteSpec(name="north", profile="lan", devices=(DeviceSpec(name="xe1"),))
    south = SiteSpec(name="south", profile="lan", devices=(DeviceSpec(name="ios1", platform="iosv-15.8"),))
    with start_world(WorldSpec(sites=(north, south))) as world:
        yield world


@contextmanager
def the_routers_of_the_journals(logins: list[str]) -> Iterator[World]:
    """Start the two routers with which the stored journals were made.

    Args:
        logins: Configuration lines of the first with the salted passwords that it had then.
    """
    devices = (DeviceSpec(name="xe1", config_lines=tuple(logins)), DeviceSpec(name="xe2"))
    with start_world(WorldSpec(devices=devices, profile="lan")) as world:
        yield world


def write_hosts(world: World, folder: Path) -> Path:
    """Write an inventory of a world's devices into a new folder, and return it."""
    folder.mkdir()
    hosts = {
        one.name: {
            "hostname": one.address,
            "platform": "ios",
            "username": one.username,
            "password": one.password,
            "data": {
                "enable_secret": one.enable_secret,
                "link_rate_bps": 50_000_000,
                "cap_share": 0.98,
                "site": one.site,
            },
        }
        for one in world.devices
    }
    (folder / "hosts.yaml").write_text(json.dumps(hosts))
    return folder


def configure(world: World, host: str, lines: list[str]) -> None:
    """Configure a device in an SSH session of its own; its startup configuration stays as it was."""
    one = next(device for device in world.devices if device.name == host)
    with in_core(world):
        session = ConnectHandler(
            device_type="cisco_ios", host=one.address, username=one.username, password=one.password
        )
        session.send_config_set(lines)
        session.disconnect()


@contextmanager
def in_front(world: World) -> Iterator[None]:
    """Let this thread's sockets be where flashferry's are: in front of the WAN."""
    with in_core(world):
        yield
