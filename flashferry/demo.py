"""The demo: the main job on the lab, in the order in which an engineer would do it, every figure measured."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from flashferry.output import EventLines, say
from flashferry.tables import console, print_checks, print_run
from inventory.load import open_inventory, sample_directory
from staging.context import DeviceOptions
from staging.exit_codes import ExitCode, exit_code
from staging.fleet_check import check_fleet
from staging.images import random_image, wanted_image
from staging.journal import Journal
from staging.run import RunOptions, run_fleet
from staging.states import Outcome, Restored
from tasks.configuration import difference, fingerprint

if TYPE_CHECKING:
    from lab.world import World, WorldSpec
    from staging.record import DeviceRecord, RunReport

PROBE_BYTES = 2_000_000
IMAGE_BYTES = 20_000_000
_SALT = ""  # the demo compares in memory; nothing is kept


def run_demo(spec: WorldSpec) -> ExitCode:
    """Start the lab, look, time a small copy, stage an image, compare; return the exit code."""
    from lab.enter import enter_core
    from lab.errors import LabError
    from lab.world import start_world

    try:
        with start_world(spec) as world:
            # From here on everything of this process is where the controller is: in front of the WAN.
            enter_core(world.core_pid)
            # The routers' host keys are made anew with every lab: nobody's known hosts may remember them.
            os.environ["FLASHFERRY_STATE_DIR"] = str(world.directory / "state")
            return _demonstrate(world)
    except LabError as error:
        say(f"error: {error}")
        return ExitCode.USAGE


def _demonstrate(world: World) -> ExitCode:
    name = world.devices[0].name
    link = "one way 50 ms, loss 0.01 %, 50 Mbit/s" if world.profile.name == "published" else world.profile.name
    _title(f"1. A router behind a WAN: {name}, {world.devices[0].platform} stand-in; {link} ({world.rung})")
    before = world.running_config(name)
    fleet = open_inventory(sample_directory())
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-demo-") as folder,
        random_image(IMAGE_BYTES, "demo.bin") as image,
    ):
        checks = check_fleet(fleet, wanted_image(image))
        print_checks(checks)
        if checks[0].outcome is not Outcome.DONE:
            return exit_code(check.outcome for check in checks)
        with Journal(Path(folder)) as journal:
            _title(f"2. A copy of {PROBE_BYTES / 1e6:.0f} MB to null: as the router is")
            with random_image(PROBE_BYTES) as small:
                as_is = run_fleet(
                    open_inventory(sample_directory()),
                    small,
                    RunOptions(verb="probe", device=DeviceOptions(tune=False, to_null=True)),
                    journal=journal,
                    emit=EventLines(),
                )
            print_run(as_is)
            _title(f"3. An image of {IMAGE_BYTES / 1e6:.0f} MB staged: tune, copy, verify, restore, prove")
            tuned = run_fleet(
                open_inventory(sample_directory()), image, RunOptions(), journal=journal, emit=EventLines()
            )
            print_run(tuned)
    _title("4. Before and after")
    return _compare(as_is, tuned, unchanged=_unchanged(before, world.running_config(name)))


def _compare(as_is: RunReport, tuned: RunReport, *, unchanged: str) -> ExitCode:
    one, two = as_is.devices[0], tuned.devices[0]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "as the router is", "tuned by flashferry"):
        table.add_column(column, overflow="fold")
    table.add_row("copied", f"{as_is.image_bytes:,} bytes to null:", f"{tuned.image_bytes:,} bytes to flash")
    table.add_row("speed by the router's own line", _device_rate(one), _device_rate(two))
    table.add_row("speed by the server's account", _server_rate(one), _server_rate(two))
    table.add_row("SYN of the router", _syn(one), _syn(two))
    table.add_row("sender", _sender(one), _sender(two))
    table.add_row("verdict", _verdict(one), _verdict(two))
    table.add_row("MD5 computed by the router", "-", two.verify.md5 if two.verify else "-")
    table.add_row("MD5 of the file", "-", tuned.md5)
    table.add_row("router's configuration", one.restored.value, two.restored.value)
    console().print(table)
    console().print(f"Seen from behind the router's back, its running configuration is {unchanged}.")
    code = exit_code((one.outcome, two.outcome), restored=(one.restored, two.restored))
    if code is ExitCode.OK and (unchanged != "what it was" or two.restored is not Restored.RESTORED):
        return ExitCode.RESTORE_INCOMPLETE
    if code is ExitCode.OK:
        console().print(
            "Next, on your own routers: copy the folder inventory/template, put your devices in, then\n"
            "  flashferry check --inventory DIR --image FILE\n"
            "  flashferry stage --inventory DIR --image FILE --host NAME"
        )
    return code


def _unchanged(before: str, after: str) -> str:
    found = difference(fingerprint(before, salt=_SALT), after, salt=_SALT)
    return f"not what it was: {found}" if found else "what it was"


def _device_rate(device: DeviceRecord) -> str:
    if device.pull is None:
        return "-"
    line = device.pull.device
    return f"{line.rate_bytes_per_s / 1e6:.3f} MB/s ({line.size_bytes:,} bytes in {line.duration_s:.3f} s)"


def _server_rate(device: DeviceRecord) -> str:
    return f"{device.transfer.rate_bytes_per_s / 1e6:.3f} MB/s" if device.transfer else "-"


def _syn(device: DeviceRecord) -> str:
    return device.transfer.data_syn.describe() if device.transfer and device.transfer.data_syn else "-"


def _sender(device: DeviceRecord) -> str:
    if device.transfer is None:
        return "-"
    sender = device.transfer.sender
    cap = f", paced at {sender.cap_bytes_per_s / 1e6:.2f} MB/s" if sender.cap_bytes_per_s else ""
    return f"{sender.congestion_control}{cap}"


def _verdict(device: DeviceRecord) -> str:
    return device.transfer.verdict.sentence if device.transfer else "-"


def _title(text: str) -> None:
    console().print(f"\n{text}", style="bold")
