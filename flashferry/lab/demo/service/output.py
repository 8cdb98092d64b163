"""The demo's lines: the address with both sign-ins, images, the plan, and a run while it runs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flashferry.cli.view.layout import names, show
from flashferry.core import units
from flashferry.lab.demo.harness import print_line, step

if TYPE_CHECKING:
    from flashferry.lab.demo.service.environment import Environment
    from flashferry.lab.demo.service.users import Account

EVERY_S = 5.0
"""A run that goes on says so this often; the end of a wave is said at once."""

_WORDS = {
    "planned": "waiting",
    "checked": "looked at",
    "journaled": "looked at",
    "tuned": "tuned",
    "copying": "copying",
    "copied": "hashing",
    "verified": "put back",
    "restored": "put back",
}
"""What a router that is not at its end is called."""

_ACTIONS = {"stage": "to be staged"}
_DONE = frozenset({"done", "already there"})


def print_address(environment: Environment, accounts: Sequence[Account], *, is_end: bool = False) -> None:
    """Print where the service answers, and how both people sign in."""
    if not is_end:
        step(2, "The service answers, with a depot beside it: open it now and watch Tonight")
    print_line(f"{environment.url}/tonight")
    for one in accounts:
        print_line(f"  {one.name:<6} password {one.password}   {' and '.join(one.roles)}")
    if not is_end and environment.moved_from is not None:
        print_line(f"Port {environment.moved_from} is in use here, so it is another one.")


def print_images(held: Iterable[Mapping[str, Any]]) -> None:
    """Print what is held of images."""
    show(
        {
            "image": str(one["name"]),
            "size": units.size(one["size_bytes"]),
            "held of it": str(one["state"]),
            "sha-512": f"{one['sha512'][:24]}...",
        }
        for one in held
    )


def print_plan(plan: Mapping[str, Any], digest: str) -> None:
    """Print what a plan says: its devices, its waves, and when it would be over."""
    actions = {_ACTIONS.get(action, action): count for action, count in plan["actions"].items()}
    print_line(f"plan sha256:{digest[:16]}...: {_counted(actions)}")
    for wave in plan["waves"]:
        print_line(
            f"  {_wave_name(wave['number'], wave['name']):<16} {len(wave['hosts']):2} routers: {names(wave['hosts'])}"
        )
    for device in plan["devices"]:
        if device["reason"]:
            print_line(f"  {device['host']}: {device['reason']}")
    print_line(f"forecast: {units.duration(plan['duration_s'])}")


class Progress:
    """Prints how a run goes on, wave by wave: a line when a wave has ended, else one every few seconds.

    Args:
        waves: What waves are called, by number.
        url: Where the service answers.
    """

    def __init__(self, waves: Mapping[int, str], url: str) -> None:
        self._waves = waves
        self._url = url
        self._began_s = time.monotonic()
        self._said: dict[int, str] = {}
        self._said_s = -EVERY_S
        self._run_id = ""

    def show(self, run_id: str, devices: Sequence[Mapping[str, Any]]) -> None:
        """Take in where the devices of the run are."""
        if not self._run_id:
            self._run_id = run_id
            print_line(f"{self._url}/runs/{run_id}")
        is_time = time.monotonic() - self._said_s >= EVERY_S
        for number in sorted({int(one["wave"]) for one in devices}):
            mine = [one for one in devices if one["wave"] == number]
            found = Counter(_word(one) for one in mine)
            if set(found) == {"waiting"} or found.total() == 0:
                continue
            text = _counted(found)
            is_over = all(one["outcome"] for one in mine)
            if text == self._said.get(number) or not (is_over or is_time):
                continue
            self._said[number] = text
            self._said_s = time.monotonic()
            now_s = time.monotonic() - self._began_s
            print_line(f"{now_s:5.0f} s  {_wave_name(number, self._waves.get(number, '')):<16} {text}")


def _word(device: Mapping[str, Any]) -> str:
    return str(device["outcome"] or _WORDS.get(device["state"], device["state"]))


def _counted(found: Mapping[str, int]) -> str:
    """Return counts in words, what is done first."""
    order = sorted(found, key=lambda one: (one not in _DONE, -found[one], one))
    return ", ".join(f"{found[one]} {one}" for one in order if found[one])


def _wave_name(number: int, name: str) -> str:
    return f"wave {number} {name}".strip()
