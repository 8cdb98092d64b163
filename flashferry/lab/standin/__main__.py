"""The stand-in process of a site; run as ``python -m flashferry.lab.standin`` by `flashferry.lab.world`.

It makes the site's namespace before anything else, reports to the owner, and listens once the link is up.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from flashferry.lab import helper
from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import unshare_network
from flashferry.lab.standin.connections import allow_new_addresses
from flashferry.lab.standin.device_tcp import GATE

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device


_REQUESTS = ("running", "startup", "files", "flashes", "packages", "fault", "guesses", "happened")


def build_devices(settings: dict[str, Any]) -> dict[str, Device]:
    """Make the devices of a site, each with its own folder for its flash."""
    from flashferry.lab.standin.device import Device, DeviceSettings
    from flashferry.lab.standin.platform import load_platform
    from flashferry.lab.standin.recording import load_recording, recorded_platform

    devices = {}
    for values in settings["devices"]:
        values = dict(values)
        platform, recording = load_platform(values.pop("platform")), values.pop("recording")
        if recording is not None:
            platform = recorded_platform(platform, load_recording(Path(recording)))
        own = msgspec.convert(values, DeviceSettings)
        device = Device(platform.receiving(own.receiver), own, Path(settings["directory"], f"flash-{own.name}"))
        device.link_control = Path(settings["link_control"]) if settings.get("link_control") else None
        devices[own.name] = device
    return devices


def answer(devices: dict[str, Device], request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request of the control socket."""
    device = devices.get(request.get("name", ""))
    if device is None:
        return {"error": f"There is no device {request.get('name')!r}; there are {', '.join(devices)}."}
    from flashferry.lab.standin.faults import switch

    match request.get("do"):
        case "running":
            return {"text": device.running_text()}
        case "startup":
            return {"text": device.startup_text}
        case "files":
            rows = [(e.name, e.size_bytes, str(e.path)) for e in device.flash.entries()]
            return {"files": rows, "free_bytes": device.flash.free_bytes}
        case "flashes":
            roots = [(each.prefix, str(each.root)) for each in device.file_systems]
            return {"flashes": roots}
        case "packages":
            found = device.install.packages if device.install is not None else ()
            return {"packages": [(each.version, each.state) for each in found]}
        case "fault":
            try:
                switch(device, request["switches"])
            except LabError as error:
                return {"error": str(error)}
            return {"faults": {name: getattr(device.faults, name) for name in device.faults.__slots__}}
        case "guesses":
            return {"guesses": dict(device.guesses)}
        case "happened":
            return {"happened": list(device.happened), "runs": device.runs}
        case other:
            return {"error": f"Unknown request {other!r}; allowed are {', '.join(_REQUESTS)}."}


async def serve(settings: dict[str, Any], owner: int) -> None:
    """Listen for SSH and for control until the owner ends."""
    from flashferry.lab.standin.ssh import listen, make_host_key

    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_reader(owner, over.set)
    key, devices = await asyncio.gather(make_host_key(), asyncio.to_thread(build_devices, settings))
    await asyncio.to_thread(helper.read_settings)  # the link is up
    loop.add_reader(0, over.set)  # nothing more is sent: readable means the end

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline())
        writer.write(json.dumps(answer(devices, request)).encode() + b"\n")
        writer.close()

    async with await asyncio.start_unix_server(control, settings["control"]):
        listeners = [await listen(device, key) for device in devices.values()]
        for device in devices.values():
            device.tftp.follow()
        helper.report(ready=True)
        await over.wait()
        for listener in listeners:
            listener.close()


def main() -> None:
    """Run the devices of one site."""
    settings = helper.read_settings()
    owner = helper.tie_to_owner(settings)
    if settings["has_own_network"]:
        unshare_network()
        allow_new_addresses()
    else:
        # The host's network: its switches are not ours to set.
        GATE.leave_alone()
    helper.report(has_namespace=True)
    try:
        asyncio.run(serve(settings, owner))
    except LabError as error:
        helper.report(error=str(error))
        helper.await_owner()  # which still writes into the directory before it reads this
    except EOFError:
        pass
    except Exception:  # noqa: BLE001 - the exit below would swallow it, and the owner prints its last line
        traceback.print_exc()
        os.close(1)
        helper.await_owner()
    finally:
        shutil.rmtree(settings["directory"], ignore_errors=True)
        # Copies may still wait on the network in their threads; there is nothing left for them to do.
        os._exit(0)


if __name__ == "__main__":
    main()
