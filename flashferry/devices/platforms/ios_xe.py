"""Cisco IOS-XE: IOS on Linux, with the command line of IOS in all that staging uses.

Facts
-----
* `Cisco IOS XE Software, Version 16.09.03` or `Cisco IOS Software, IOS-XE Software, ...` heads `show version`; a
  Catalyst 3850 of 16.4 has the name of its train only, `Cisco IOS Software [Everest], ...`, which IOS has not.
* A line that is the default of a release is not shown: selective acknowledgement is on from 17.10.1, where the SSH bulk
  mode is. So what is set and not shown may be a default here, see `tasks.tune`.
* What differs by release and not by platform (`verify /sha512` from 16.5.1 on) is tried, and taken back where it is
  refused.
"""

from __future__ import annotations

import re
from dataclasses import replace

from flashferry.devices.platforms.ios import IOS

IOS_XE = replace(
    IOS, name="IOS-XE", shown_by=re.compile(r"(?m)^Cisco IOS[ -]XE Software|^Cisco IOS Software,? (?:\[|IOS-XE)")
)
