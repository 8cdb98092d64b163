"""pyntc drives an upgrade: `install_os`, with its defaults.

It runs in an environment of its own that has pyntc: the device comes as JSON on standard input, what pyntc answered
goes as JSON to the file named there.
"""

import json
import sys
from pathlib import Path

from pyntc import ntc_device

asked = json.load(sys.stdin)
image = asked["file"].partition(":")[2]
try:
    device = ntc_device(
        "cisco_ios_ssh", asked["host"], asked["username"], asked["password"], secret=asked["secret"],
        port=asked["port"],
    )  # fmt: skip
    answer = "" if device.install_os(image, timeout=120, read_timeout=60) else "answers False"
except Exception as error:  # noqa: BLE001 - another's code
    answer = " ".join(f"{type(error).__name__}: {error}".split())[:300]
Path(asked["result"]).write_text(json.dumps([["install_os", answer]]))
