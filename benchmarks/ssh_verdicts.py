"""Verdicts on copies by SCP, each held back by a cause that was set; needs root, TUN and the extra `scp`.

`python -m benchmarks.ssh_verdicts FILE`. By the command line, `flashferry stage --transport scp --no-tune`, in front of
stand-ins with the windows of their releases, with a model of slow crypto, and behind a control-plane policer. The table
goes to FILE; the exit code is 1 where a verdict is none of those that are right.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.stage_driver import flashferry
from flashferry.lab.experiment.harness import markdown
from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

_TCP = "ip tcp window-size 2500000"
_WIDE = (_TCP, "ip tcp selective-ack", "ip ssh bulk-mode 2097152")
_LINK = {"rate_bps": 50e6, "delay_s": 0.05, "loss_ratio": 0.0}
_LAN = {"rate_bps": 50e6, "delay_s": 0.005, "loss_ratio": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A copy and what limits it.

    Attributes:
        name: How the table calls it.
        platform: The stand-in.
        lines: What its configuration has besides.
        faults: What is wrong with it.
        packets_per_s: What its control plane lets in; None for all.
        link: The link to it.
        size_bytes: Size of the image.
        right: Verdicts that are right.
        words: What the sentence has to hold.
    """

    name: str
    platform: str
    size_bytes: int
    right: tuple[str, ...]
    lines: tuple[str, ...] = ()
    faults: dict[str, float] = field(default_factory=dict)
    packets_per_s: int | None = None
    link: dict[str, float] = field(default_factory=lambda: dict(_LINK))
    words: str = ""


CASES = (
    Case(
        name="channel 8 KiB (16.11 as it is)",
        platform="csr1000v-16.11",
        lines=(_TCP,),
        size_bytes=1_000_000,
        right=("ssh window",),
    ),
    Case(
        name="channel 128 KiB (17.15 as it is)",
        platform="c8000v-17.15",
        lines=(_TCP,),
        size_bytes=12_000_000,
        right=("ssh window",),
    ),
    Case(
        name="channel 2 MiB",
        platform="c8000v-17.15",
        lines=_WIDE,
        size_bytes=40_000_000,
        right=("cap", "bandwidth"),
    ),
    Case(
        name="channel 2 MiB, crypto of 400 kB/s",
        platform="c8000v-17.15",
        lines=_WIDE,
        faults={"ssh_crypto_bytes_per_s": 400e3},
        size_bytes=6_000_000,
        right=("slow receiver",),
        words="encrypted",
    ),
    Case(
        name="control plane of 1000 packets/s, 10 ms",
        platform="c9300-17.6",
        lines=_WIDE,
        packets_per_s=1000,
        link=_LAN,
        size_bytes=16_000_000,
        right=("policer",),
        words="system-cpp-police-forus",
    ),
)


def play(case: Case) -> dict[str, Any]:
    """Stage an image by SCP as the device is; return the record of the copy."""
    device = DeviceSpec(
        name="r1",
        platform=case.platform,
        config_lines=case.lines,
        control_plane_packets_per_s=case.packets_per_s,
        transports=("scp",),
    )
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-") as name,
        start_world(WorldSpec(devices=(device,), profile="published")) as world,
    ):
        world.renew_link(world.sites[0].name, "1", **case.link)
        if case.faults:
            world.fault("r1", **case.faults)
        image = Path(name) / "image.bin"
        image.write_bytes(os.urandom(case.size_bytes))
        inventory = write_inventory(world, Path(name) / "inventory")
        arguments = ("stage", "--inventory", str(inventory), "--image", str(image), "--no-tune", "--transport", "scp")
        _, result = flashferry(world, Path(name) / "state", *arguments)
    (done,) = result["run"]["devices"]
    found: dict[str, Any] = done["transfer"]
    return found


def is_right(case: Case, transfer: dict[str, Any]) -> bool:
    """Tell whether the verdict is one of the right ones, and says what it has to."""
    verdict = transfer["verdict"]
    said = " ".join((verdict["sentence"], verdict["advice"], *verdict["evidence"]))
    return verdict["kind"] in case.right and case.words in said


def row(case: Case, transfer: dict[str, Any]) -> tuple[str, ...]:
    """Return a line of the table."""
    verdict = transfer["verdict"]
    return (
        case.name,
        f"{transfer['rate_bytes_per_s'] / 1e6:.3f}",
        str(transfer["channel_window_bytes"]),
        transfer["sender"]["congestion_control"],
        f"{verdict['kind']}, {verdict['share']:.0%}",
        "yes" if is_right(case, transfer) else "no",
    )


def main() -> None:
    """Play all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this text")
    options = parser.parse_args()
    rows, wrong = [], 0
    for case in CASES:
        if options.only in case.name:
            transfer = play(case)
            rows.append(row(case, transfer))
            wrong += not is_right(case, transfer)
            print(f"{case.name}: {transfer['verdict']['sentence']}", file=sys.stderr, flush=True)
    text = markdown(("copy by SCP", "MB/s", "channel window", "sender", "verdict", "right"), rows)
    options.file.write_text(text + "\n", encoding="utf-8")
    print(text)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
