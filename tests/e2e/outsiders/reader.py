"""Genie reads outputs that others have taken: nothing is connected.

It runs in an environment of its own that has Genie, and imports nothing of this repository: platforms and outputs come
as JSON on standard input, what was read goes as JSON to the file named there.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from genie.metaparser.util.exceptions import SchemaEmptyParserError
from pyats.topology import loader


def main() -> None:
    """Read every output."""
    asked = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    named = asked["platforms"]
    testbed = loader.load({"testbed": {"name": "t"}, "devices": {each: described(*named[each]) for each in named}})
    for device in testbed.devices.values():
        device.custom.abstraction = {"order": ["os", "platform"]}
    found = [read(testbed.devices[each["platform"]], each["command"], each["output"]) for each in asked["outputs"]]
    Path(asked["result"]).write_text(json.dumps(found))


def described(system: str, platform: str) -> dict[str, Any]:
    """Return a device as a testbed names it."""
    connections = {"cli": {"protocol": "ssh", "ip": "192.0.2.1"}}
    own = {"platform": platform} if platform else {}
    return {"os": system, **own, "type": "router", "connections": connections}


def read(device: Any, command: str, output: str) -> dict[str, Any]:
    """Return the rows of an output, or what went wrong."""
    try:
        return {"rows": device.parse(command, output=output), "error": ""}
    except SchemaEmptyParserError:
        return {"rows": {}, "error": ""}
    except Exception as error:  # noqa: BLE001 - another's code
        return {"rows": {}, "error": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    main()
