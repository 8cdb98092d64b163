"""What the stand-in's `containerlab` does: version, deploy, inspect, destroy, netem."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashferry.lab.containerlab.standin import complain, say

State = dict[str, Any]

_MACHINES = ("cisco_c8000v", "cisco_csr1000v", "cisco_vios")
_KNOWN = (*_MACHINES, "cisco_iol", "linux", "bridge")
_SHORT = {"-t": "--topo", "-n": "--node", "-i": "--interface", "-f": "--format", "-c": "--cleanup", "-a": "--all"}
_SWITCHES = ("--cleanup", "--all", "--reconfigure", "--details")
_NS = {"ms": 1_000_000, "s": 1_000_000_000, "us": 1000, "ns": 1}


class Refused(Exception):
    """What the program ends with."""


def act(state: State, words: Sequence[str]) -> int:
    """Do what the words say; return the exit code."""
    try:
        if state["switches"]["docker_down"] and words[0] != "version":
            raise Refused("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?")
        _act(state, list(words))
    except Refused as refused:
        complain(f"ERROR\n\n  {refused}")
        return 1
    return 0


def _act(state: State, words: list[str]) -> None:
    verbs = {
        ("version",): _version,
        ("deploy",): _deploy,
        ("inspect",): _inspect,
        ("destroy",): _destroy,
        ("tools", "netem", "set"): _netem_set,
        ("tools", "netem", "show"): _netem_show,
    }
    for name, verb in verbs.items():
        if tuple(words[: len(name)]) == name:
            verb(state, _flags(words[len(name) :]))
            return
    raise Refused(f'unknown command "{" ".join(words)}" for "containerlab"')


def _flags(words: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    while words:
        name = _SHORT.get(words[0], words[0])
        if name in _SWITCHES:
            found[name], words = "true", words[1:]
            continue
        if not name.startswith("--") or len(words) < 2:
            raise Refused(f"unknown flag: {words[0]}")
        found[name], words = words[1], words[2:]
    return found


def _version(state: State, _: Mapping[str, str]) -> None:
    say("  ____ ___  _   _ _____\n")
    say(f"    version: {state['switches']['version']}")
    say("     commit: 5ae50094a\n       date: 2026-08-21T11:51:22Z")
    say("     source: https://github.com/srl-labs/containerlab\n rel. notes: https://containerlab.dev/rn/0.79/")


def _deploy(state: State, flags: Mapping[str, str]) -> None:
    from ruamel.yaml import YAML

    path = Path(flags.get("--topo", ""))
    if not path.is_file():
        raise Refused(f"failed to read topology file: open {path}: no such file or directory")
    content = YAML(typ="safe").load(path.read_text())
    name, top = content["name"], content["topology"]
    if name in state["labs"]:
        raise Refused(f"the '{name}' lab has already been deployed")
    nodes = {label: _merged(top, given or {}) for label, given in top["nodes"].items()}
    for label, node in nodes.items():
        if node.get("kind") not in _KNOWN:
            raise Refused(f'kind "{node.get("kind")}" of node "{label}" is not supported')
        if node.get("image") not in state["images"]:
            policy = node.get("image-pull-policy", "IfNotPresent")
            raise Refused(
                f"image {node.get('image')} not found locally, and image-pull-policy={policy} prevents containerlab "
                "from pulling it"
            )
    complain(f"INFO Containerlab started version={state['switches']['version']}")
    prefix = content.get("prefix", "clab")
    directory = path.parent / f"clab-{name}"
    directory.mkdir()
    lab: dict[str, Any] = {"topology": str(path.absolute()), "directory": str(directory), "nodes": {}}
    state["labs"][name] = lab
    for number, (label, node) in enumerate(nodes.items()):
        lab["nodes"][f"{prefix}-{name}-{label}"] = {
            "label": label,
            "kind": node["kind"],
            "image": node["image"],
            "env": node.get("env") or {},
            "startup": node.get("startup-config", ""),
            "began_at": time.time(),
            "address": node.get("mgmt-ipv4", f"172.20.20.{number + 2}") + "/24",
            "netem": {},
        }
        if state["switches"]["deploy_fails"]:
            raise Refused(state["switches"]["deploy_fails"])
    say("+──────+")


def _merged(top: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    defaults = top.get("defaults") or {}
    kind = node.get("kind", defaults.get("kind"))
    levels = [defaults, (top.get("kinds") or {}).get(kind) or {}, node]
    found: dict[str, Any] = {"kind": kind}
    for level in levels:
        found |= {key: value for key, value in level.items() if key != "env"}
    found["env"] = {key: value for level in levels for key, value in (level.get("env") or {}).items()}
    return found


def _inspect(state: State, flags: Mapping[str, str]) -> None:
    if state["switches"]["inspect_fails"] > 0:
        state["switches"]["inspect_fails"] -= 1
        raise Refused("failed to list containers based on labels: context deadline exceeded")
    if "--all" not in flags and "--name" not in flags:
        raise Refused("provide either a lab name (--name) or a topology file path (--topo) or the --all flag")
    wanted = flags.get("--name")
    found = {name: _details(state, name, lab) for name, lab in state["labs"].items() if wanted in (None, name)}
    say(json.dumps({name: nodes for name, nodes in found.items() if nodes}, indent=2))


def _details(state: State, name: str, lab: Mapping[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "lab_name": name,
            "labPath": Path(lab["topology"]).name,
            "absLabPath": lab["topology"],
            "name": container,
            "container_id": f"{abs(hash(container)):012x}"[:12],
            "image": node["image"],
            "kind": node["kind"],
            **_standing(state, node),
            "ipv6_address": "N/A",
            "owner": "root",
        }
        for container, node in sorted(lab["nodes"].items())
    ]


def _standing(state: State, node: Mapping[str, Any]) -> dict[str, str]:
    if node["label"] in state["switches"]["exited"]:
        return {"state": "exited", "status": "Exited (1) 2 seconds ago", "ipv4_address": "N/A"}
    up_s = time.time() - node["began_at"]
    status = "Up Less than a second"
    if node["kind"] in _MACHINES:
        boot_s = state["switches"]["boot_s"]
        status = "healthy" if up_s >= boot_s else "health: starting" if up_s < boot_s / 2 else "unhealthy"
    return {"state": "running", "status": status, "ipv4_address": node["address"]}


def _destroy(state: State, flags: Mapping[str, str]) -> None:
    found = {
        name: lab
        for name, lab in state["labs"].items()
        if name == flags.get("--name") or lab["topology"] == flags.get("--topo")
    }
    for name, lab in found.items():
        if "--cleanup" in flags:
            shutil.rmtree(lab["directory"], ignore_errors=True)
        if state["switches"]["destroy_leaves"] > 0:
            state["switches"]["destroy_leaves"] -= 1
            complain(f"ERRO Error occurred during the {name} lab deletion")
        else:
            del state["labs"][name]
    if not found:
        complain("INFO no containerlab containers found")
        base = Path(flags["--topo"]).parent if "--topo" in flags else Path()
        for directory in sorted(base.glob("clab-*"))[:1] if "--cleanup" in flags else ():
            shutil.rmtree(directory)


def _node(state: State, flags: Mapping[str, str]) -> dict[str, Any]:
    for lab in state["labs"].values():
        if flags.get("--node") in lab["nodes"]:
            found: dict[str, Any] = lab["nodes"][flags["--node"]]
            return found
    raise Refused(f"Error response from daemon: No such container: {flags.get('--node')}")


def _ports(node: Mapping[str, Any]) -> tuple[str, ...]:
    is_through = str(node["env"].get("CLAB_MGMT_PASSTHROUGH", node["kind"] == "cisco_vios")).lower() == "true"
    return ("eth0", "tap0") if node["kind"] in _MACHINES and is_through else ("eth0",)


def _netem_set(state: State, flags: Mapping[str, str]) -> None:
    loss, jitter = float(flags.get("--loss", 0)), _nanoseconds(flags.get("--jitter", "0s"))
    delay = _nanoseconds(flags.get("--delay", "0s"))
    if not 0 <= loss <= 100:
        raise Refused("packet loss must be in the range between 0 and 100")
    if jitter and not delay:
        raise Refused("jitter cannot be set without setting delay")
    if state["switches"]["netem_refused"]:
        raise Refused(state["switches"]["netem_refused"])
    node, port = _node(state, flags), flags["--interface"]
    if port not in _ports(node):
        raise Refused("Link not found")
    node["netem"][port] = {
        "delay": _go(delay),
        "jitter": _go(jitter),
        "packet_loss": round(loss, 2),
        "rate": int(flags.get("--rate", 0)),
        "corruption": 0,
    }
    say("+──────+")


def _netem_show(state: State, flags: Mapping[str, str]) -> None:
    wrong = state["switches"]["netem_wrong"] or {}
    told = [{"interface": port, **set_, **wrong} for port, set_ in _node(state, flags)["netem"].items()]
    say(json.dumps({flags["--node"]: told}, indent=2))


def _nanoseconds(text: str) -> int:
    unit = next(unit for unit in _NS if text.endswith(unit))
    return round(float(text.removesuffix(unit)) * _NS[unit])


def _go(nanoseconds: int) -> str:
    """Return a duration as Go prints it; nothing for none."""
    if nanoseconds >= _NS["s"]:
        minutes, rest = divmod(nanoseconds / _NS["s"], 60)
        return (f"{minutes:.0f}m" if minutes else "") + f"{rest:g}s"
    return f"{nanoseconds / _NS['ms']:g}ms" if nanoseconds else ""
