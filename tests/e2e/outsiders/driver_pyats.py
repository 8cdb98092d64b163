"""Genie's own APIs drive an installation.

It runs in an environment of its own that has pyATS: the device and the way come as JSON on standard input, what each
step answered goes as JSON to the file named there. Only the waits behind a reload are shortened. What a reload printed
Genie's APIs read from unicon's log, so that nothing of it may be disabled.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyats.topology import loader
from visitor import described

RELOAD = {"install_reload": True, "timeout": 120, "connect_timeout": 1, "install_timeout": 10}


def main() -> None:
    """Go the way and write what each step answered."""
    asked = json.load(sys.stdin)
    named = described(asked)
    named["connections"]["cli"]["settings"] = {"RELOAD_WAIT": 15, "POST_RELOAD_WAIT": 3}
    device = loader.load({"testbed": {"name": "t"}, "devices": {asked["name"]: named}}).devices[asked["name"]]
    device.custom.abstraction = {"order": ["os", "platform"]}
    device.connect(log_stdout=True)
    found = [[name, answered(step)] for name, step in WAYS[asked["way"]](device, asked["file"])]
    Path(asked["result"]).write_text(json.dumps(found))


def answered(step: Callable[[], Any]) -> str:
    """Return nothing where a step says that it succeeded, else what it says."""
    try:
        answer = step()
    except Exception as error:  # noqa: BLE001 - another's code
        return f"{type(error).__name__}: {error}"[:300]
    return "" if answer else f"answers {answer!r}"


def in_steps(device: Any, file: str) -> list[tuple[str, Callable[[], Any]]]:
    """Add, activate with a timer, commit; after each the API that asks for the state."""
    api = device.api
    return [
        ("execute_install_add", lambda: api.execute_install_add(file_path=file)),
        ("verify_install_state I", lambda: api.verify_install_state(install_state="I")),
        ("execute_install_activate", lambda: api.execute_install_activate(abort_timer="60", prompt=False, **RELOAD)),
        ("verify_install_state U", lambda: api.verify_install_state(install_state="U")),
        # The blank before the comma that a C8000V prints belongs to the word for Genie.
        ("verify_install_auto_abort_timer_state", lambda: api.verify_install_auto_abort_timer_state("active ")),
        ("execute_install_commit", lambda: api.execute_install_commit(connect_timeout=1)),
        ("verify_install_state C", lambda: api.verify_install_state(install_state="C")),
        ("execute_install_remove", lambda: api.execute_install_remove(connect_timeout=1)),
    ]


def at_once(device: Any, file: str) -> list[tuple[str, Callable[[], Any]]]:
    """All in one command."""
    quick = {"timeout": 120, "connect_timeout": 1, "install_timeout": 10}
    return [
        ("execute_install_one_shot", lambda: device.api.execute_install_one_shot(file, prompt=False, **quick)),
        ("verify_install_state C", lambda: device.api.verify_install_state(install_state="C")),
    ]


def and_back(device: Any, file: str) -> list[tuple[str, Callable[[], Any]]]:
    """Add, activate, abort: the old release runs again."""
    api = device.api
    return [
        ("execute_install_add", lambda: api.execute_install_add(file_path=file, prompt=False)),
        ("execute_install_activate", lambda: api.execute_install_activate(**RELOAD)),
        ("execute_install_abort", lambda: api.execute_install_abort(timeout=60, connect_timeout=1)),
        ("connect", lambda: again(device)),
        ("verify_install_state C", lambda: api.verify_install_state(install_state="C")),
    ]


def again(device: Any) -> bool:
    """Connect once the device is back, which the API of abort leaves to its caller."""
    device.disconnect()
    time.sleep(15)
    device.connect(log_stdout=True)
    return True


WAYS = {"in steps": in_steps, "at once": at_once, "and back": and_back}

if __name__ == "__main__":
    main()
