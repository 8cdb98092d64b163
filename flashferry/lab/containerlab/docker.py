"""What the stand-in's `docker` does: its version, images that are here, and what containers said.

Only what a night asks: `docker version --format {{.Server.Version}}`, `docker image inspect NAME`, and
`docker logs --tail N NAME`. The words of refusals are docker's, by its own documentation and many logs; whether a
real one says them in just this way makes no difference to whoever only looks at the exit code. Short, for a night asks
no more; a module as `clab` is, for each is a program by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flashferry.lab.containerlab.standin import complain, say

VERSION = "28.1.1"

_BOOTED = "CVAC Configuration has been applied."


def act(state: dict[str, Any], words: Sequence[str]) -> int:
    """Do what the words say; return the exit code."""
    if state["switches"]["docker_down"]:
        return _refused("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?")
    if list(words[:1]) == ["version"]:
        say(VERSION)
        return 0
    if list(words[:2]) == ["image", "inspect"]:
        return _image(state, words[2])
    if list(words[:1]) == ["logs"]:
        return _logs(state, words[-1])
    return _refused(f"unknown command: docker {' '.join(words)}")


def _image(state: dict[str, Any], name: str) -> int:
    if name not in state["images"]:
        say("[]")
        return _refused(f"Error response from daemon: No such image: {name}")
    say(json.dumps([{"Id": "sha256:0", "RepoTags": [name], "Config": {"Labels": state["images"][name]}}], indent=4))
    return 0


def _logs(state: dict[str, Any], name: str) -> int:
    """Tell a container's words: vrnetlab's own on standard error, the console on standard output."""
    for lab in state["labs"].values():
        if (node := lab["nodes"].get(name)) is not None:
            say(f"{node['startup']}{state['switches']['console']}")
            complain(f"2026-11-22 01:00:00,000: launch     INFO     {_BOOTED}")
            return 0
    return _refused(f"Error response from daemon: No such container: {name}")


def _refused(told: str) -> int:
    complain(told)
    return 1
