"""A visitor to the stand-ins with pyATS: connects with unicon's defaults, types, has Genie and ntc-templates read.

It runs in an environment of its own that has pyATS, and imports nothing of this repository: what it shall do comes as
JSON on standard input, what it found goes as JSON to the file named there.
"""

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

from genie.libs.parser.utils.common import get_parser
from genie.metaparser.util.exceptions import SchemaEmptyParserError
from ntc_templates import parse
from pyats.topology import loader

SSH_OPTIONS = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
    # As any client of today needs for IOS 15; others agree on something better.
    "-o KexAlgorithms=+diffie-hellman-group14-sha1 -o HostKeyAlgorithms=+ssh-rsa"
)
REFUSED = re.compile(r"^% ?(Invalid|Incomplete|Ambiguous|Unrecognized|Bad IP)", re.MULTILINE)


def main() -> None:
    """Visit every device and write what was found."""
    asked = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)
    testbed = loader.load({"testbed": {"name": "t"}, "devices": {d["name"]: described(d) for d in asked["devices"]}})
    found = {each["name"]: visit(testbed.devices[each["name"]], each["commands"]) for each in asked["devices"]}
    Path(asked["result"]).write_text(json.dumps(found))


def described(device: dict[str, Any]) -> dict[str, Any]:
    """Return a device as a testbed names it: nothing but where it is, what it is, and how to log in."""
    return {
        "os": device["os"],
        **({"platform": device["platform"]} if device.get("platform") else {}),
        "type": "router",
        "credentials": {
            "default": {"username": device["username"], "password": device["password"]},
            "enable": {"password": device["secret"]},
        },
        "connections": {
            "cli": {"protocol": "ssh", "ip": device["host"], "port": device["port"], "ssh_options": SSH_OPTIONS}
        },
    }


def visit(device: Any, commands: list[str]) -> dict[str, Any]:
    """Connect as unicon does where nothing is set, and type the commands."""
    try:
        device.connect(log_stdout=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return {"connected": False, "why": f"{type(error).__name__}: {error}", "commands": {}}
    answers = {command: answered(device, command) for command in commands}
    device.disconnect()
    return {"connected": True, "why": "", "commands": answers}


def answered(device: Any, command: str) -> dict[str, str]:
    """Type a command; say whether it was refused, and what Genie and ntc-templates make of its output."""
    try:
        output = device.execute(command, error_pattern=[], timeout=60)
    except Exception as error:  # noqa: BLE001 - another's code
        return {"output": "", "refused": f"{type(error).__name__}", "genie": "", "ntc": ""}
    if REFUSED.search(output):
        return {"output": output, "refused": "yes", "genie": "", "ntc": ""}
    return {"output": output, "refused": "", "genie": by_genie(device, command, output), "ntc": by_ntc(command, output)}


def by_genie(device: Any, command: str, output: str) -> str:
    """Return ``read``, ``nothing`` (it saw no row), ``none`` (it has no parser), or what went wrong."""
    try:
        get_parser(command, device)
    except Exception:  # noqa: BLE001 - another's code
        return "none"
    try:
        rows = device.parse(command, output=output)
    except SchemaEmptyParserError:
        return "nothing"
    except Exception as error:  # noqa: BLE001 - another's code
        return f"{type(error).__name__}: {error}"[:300]
    return "read" if rows else "nothing"


def by_ntc(command: str, output: str) -> str:
    """Return the same of ntc-templates, whose index takes the template of a shorter command where there is none."""
    words = command.split()
    words = words[:-1] if re.search(r"\d", words[-1]) else words  # an interface or a host
    own = (Path(parse.__file__).parent / "templates" / f"cisco_ios_{'_'.join(words)}.textfsm").exists()
    try:
        rows = parse.parse_output("cisco_ios", command, output)
    except Exception as error:  # noqa: BLE001 - another's code
        return f"{type(error).__name__}: {error}"[:300] if own else "none"
    return "read" if rows else "nothing"


if __name__ == "__main__":
    main()
