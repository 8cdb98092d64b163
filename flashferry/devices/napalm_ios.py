"""Import of NAPALM's IOS driver only: importing all of NAPALM takes a quarter of a command's start-up time.

`napalm/__init__.py` imports every driver, and with that for Junos another library. While ours is imported, an empty
package stands in for `napalm`; it is removed afterwards, so that a script that imports `napalm` gets the real one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from typing import Any

_NAME = "napalm"
_lock = threading.Lock()


def ios_driver() -> Any:
    """Return NAPALM's class of IOS drivers."""
    return _imported("napalm.ios.ios").IOSDriver


def connection_exception() -> type[Exception]:
    """Return the exception that NAPALM raises if no session can be opened."""
    found: type[Exception] = _imported("napalm.base.exceptions").ConnectionException
    return found


def _imported(module: str) -> Any:
    """Import a module of NAPALM without executing `napalm/__init__.py`."""
    with _lock:
        if module in sys.modules or _NAME in sys.modules:
            return sys.modules.get(module) or importlib.import_module(module)
        spec = importlib.util.find_spec(_NAME)
        if spec is None:
            raise ModuleNotFoundError(f"No module named '{_NAME}'", name=_NAME)
        sys.modules[_NAME] = importlib.util.module_from_spec(spec)
        try:
            return importlib.import_module(module)
        finally:
            del sys.modules[_NAME]
