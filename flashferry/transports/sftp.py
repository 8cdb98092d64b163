"""SFTP, as the client of a device speaks it: SCP's way but for what is spoken inside the channel.

Facts
-----
* XE 17 has a client (`copy sftp:` was used on IE-3400 17.3 and C9200CX 17.12), older releases and IOS have none; the
  refusal of the command shows it. IOS's own server speaks no SFTP.
* The text that pyATS has for it reads as SCP's, ` Sending file modes: C0644 3698 sh_ver.txt!` with the first mark glued
  to the name; no real capture is known. Questions, settings and windows are taken to be SCP's.
* One listener of ours serves both, so ports are the same.
"""

from __future__ import annotations

from dataclasses import replace

from flashferry.transports.scp import SCP, words_of

SFTP = replace(SCP, name="sftp", title="SFTP", words=words_of("SFTP"))
