"""Only the driver that is used is imported, and nobody else notices."""

from __future__ import annotations

import subprocess
import sys

from tests.patience import PATIENCE_S


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return done.stdout.strip()


DRIVER, LOGIN = "flashferry.devices.netmiko_driver", "flashferry.devices.login"


def test_no_other_vendors_driver_is_imported():
    """Junos' alone takes longer than ours."""
    code = f"import {DRIVER}, {LOGIN}, sys; {LOGIN}.lost(); print([m for m in sys.modules if 'junos' in m])"
    assert said(code) == "[]"


def test_a_script_that_imports_napalm_gets_all_of_it():
    """Before us or behind us, its drivers are the ones that we use."""
    after = f"import {DRIVER}, napalm; print(napalm.get_network_driver('ios') is {DRIVER}.IOSDriver)"
    before = f"import napalm, {DRIVER}; print(napalm.get_network_driver('ios') is {DRIVER}.IOSDriver)"
    eos = f"import {DRIVER}, napalm; print(napalm.get_network_driver('eos').__name__)"
    assert [said(code) for code in (after, before, eos)] == ["True", "True", "EOSDriver"]
