"""What this host must have before a lab is deployed: commands, versions, rights, images, KVM. Changes nothing."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from flashferry.core.outside import shown
from flashferry.nightly.backend import Preflight, Topology
from flashferry.nightly.containerlab.commands import CONTAINERLAB, DOCKER, Commands, fault
from flashferry.nightly.containerlab.topology import (
    ContainerNode,
    check_passed_through,
    container_nodes,
    read_topology,
)
from flashferry.nightly.deadline import Deadline

STEP = "preflight"

OLDEST = (0, 65, 0)
"""The first release whose `tools netem show` tells JSON (containerlab, commit 6495894)."""

KVM = Path("/dev/kvm")

_VERSION = re.compile(r"version:\s*v?(\d+)\.(\d+)\.(\d+)")
_COMMIT = re.compile(r"Commit:\s*([0-9a-f]{7,40})")
_MEMORY = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_SHORT = 9


def preflight(commands: Commands, topology: Topology, *, deadline: Deadline, kvm: Path = KVM) -> Preflight:
    """Look whether a lab can be deployed here.

    Raises:
        ConfigInvalid: The topology is none, or TCP would end in QEMU instead of IOS.
        NightFault: With `Fault.LAB`: something is missing on this host.
    """
    wanted = {node.label for node in topology.nodes}
    nodes = tuple(node for node in container_nodes(read_topology(topology.text)) if node.label in wanted)
    check_passed_through(nodes)
    version = _version(commands, deadline)
    _check_rights()
    words = (DOCKER, "version", "--format", "{{.Server.Version}}")
    docker = commands.told(*words, what="ask docker for its version", step=STEP, deadline=deadline).strip()
    notes = [f"docker {shown(docker)}", *_images(commands, nodes, deadline)]
    if machines := [node.label for node in nodes if node.kind.is_machine]:
        _check_kvm(machines[0], kvm)
    notes.append("containerlab was never tried with KVM: tell us what it does")
    return Preflight(controller="this host", version=version, notes=tuple(notes), memory_free_bytes=_memory_bytes())


def _version(commands: Commands, deadline: Deadline) -> str:
    told = commands.told(CONTAINERLAB, "version", what="ask containerlab for its version", step=STEP, deadline=deadline)
    found = _VERSION.search(told)
    if found is None:
        raise fault(
            "expected a version of containerlab, found none",
            step=STEP,
            hint="Run 'containerlab version': something else may have its name",
        )
    version = tuple(map(int, found.groups()))
    if version < OLDEST:
        raise fault(
            f"expected containerlab {'.'.join(map(str, OLDEST))} or newer, found {'.'.join(found.groups())}",
            step=STEP,
            hint="Older ones do not tell what is set on a link; upgrade it",
        )
    return ".".join(found.groups())


def _check_rights() -> None:
    """Refuse a user who may not deploy: neither root, nor by a program that is root's."""
    program = shutil.which(CONTAINERLAB)
    if os.geteuid() == 0 or program is None:
        return
    found = Path(program).stat()
    if found.st_uid != 0 or not found.st_mode & stat.S_ISUID:
        raise fault(
            "expected root, or a containerlab that is root's with the set-user-id bit, found neither",
            step=STEP,
            hint="Run the night as root, or install containerlab's package, and be in its group 'clab_admins'",
        )


def _images(commands: Commands, nodes: tuple[ContainerNode, ...], deadline: Deadline) -> Iterator[str]:
    """Yield which vrnetlab built the images.

    Raises:
        NightFault: One is not here.
    """
    for image in dict.fromkeys(node.image for node in nodes):
        name = image or "none"
        what = f"find the image {shown(name)}"
        ran = commands.run(DOCKER, "image", "inspect", name, what=what, step=STEP, deadline=deadline)
        if image is None or ran.code != 0:
            raise fault(
                f"expected the image {shown(name)} on this host, found none: {ran.said}",
                step=STEP,
                hint="Build it with vrnetlab 0.21.0 or newer; no image is pulled for a night",
            )
        if found := _COMMIT.search(ran.out):
            yield f"{shown(name)}: by vrnetlab {found[1][:_SHORT]}"


def _check_kvm(label: str, kvm: Path) -> None:
    if not os.access(kvm, os.R_OK | os.W_OK):
        raise fault(
            f"router {label}: expected {kvm}, found none that can be used",
            step=STEP,
            hint="It is a virtual machine: run nights where KVM is, or use kind cisco_iol",
        )


def _memory_bytes() -> int | None:
    try:
        found = _MEMORY.search(Path("/proc/meminfo").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
