"""NAPALM's IOS driver alone: importing the package brings those of all other vendors, a quarter of a command's start.

`napalm/__init__.py` imports every driver there is, and with Junos' a library of its own. While our one is imported the
package stands empty; afterwards it is removed, so that a script which imports it gets all of it.
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
    """Return what NAPALM raises where no session comes about."""
    found: type[Exception] = _imported("napalm.base.exceptions").ConnectionException
    return found


def _imported(module: str) -> Any:
    """Return a module of NAPALM's; what it imports comes with it, the package's own imports do not."""
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
