"""SCP and SFTP as a device's client uses them.

Facts
-----
* `copy scp://user@host[:port]/name`: without a password in the URL the device asks `Password: ` and does not echo what
  is typed (genielibs). So the ticket's password is in no command line and in no command accounting. Another tool's code
  puts a port into the URL, but no capture shows it accepted, so our server prefers port 22.
* It may ask for address, user and file although the URL has them, then for the target, for overwriting, and last for
  the password (ASR903, XE 3.16).
* Instead of FTP's `Loading` it prints ` Sending file modes: C0777 4 testme.bin`, then progress marks, and no `[OK`. The
  line with the byte count is the same; its seconds include the login.
* `vrf NAME` follows the target; `ip ssh source-interface NAME` is a configuration line for all SSH connections that the
  device opens.
* The SSH channel has a window of its own inside TCP's: 8192 bytes on 16.x, 131072 with bulk mode, which is the default
  from 17.10.1. `ip ssh bulk-mode N` and `ip ssh window-size N` widen it (`flashferry.devices.platforms`).
* Unknown: its output after a wrong password, a changed host key, or the end of the channel during a copy. Without a
  common algorithm `ssh` logs `%SSH-3-NO_MATCH` and prints `[Connection to ... aborted: error status 0]`.
* It may ask about the host key, `Are you sure you want to continue connecting`; pyATS answers `yes`, no capture shows
  the whole question. Ours is confirmed by its fingerprint only, see `flashferry.transports.copy_dialogue`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.platforms.platform import CopyQuestion, Offered
from flashferry.transports.transport import (
    SAYS_LITTLE,
    SERVER_ASKED,
    SOURCE_ASKED,
    FailureCause,
    ListenOptions,
    Messages,
    Offer,
    Ports,
    Transport,
    offered,
    source_setting,
)

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings
    from flashferry.sshserver.host_keys import HostKey

NO_COMMON = (
    "Have the device take one of our server's for the time of the copy ('ip ssh client algorithm encryption', 'mac' or "
    "'kex'; 'no ip ssh client algorithm ...' where its list was shortened), or take another transport"
)
"""What to do if device and server have no common algorithm. Releases before 17 are offered legacy ones anyway."""

_QUESTIONS = (
    SERVER_ASKED,
    offered("source user", r"Source username \[([^\]]*)\]\? ?", Offered.USER),
    SOURCE_ASKED,
    offered(
        "host key",
        r"Are you sure you want to continue connecting[ ?]*(?:[(\[]yes/no[^)\]\n]*[)\]])?[ ?:]*",
        Offered.HOST_KEY,
        "yes\n",
    ),
    CopyQuestion(
        name="password",
        pattern=re.compile(r"(?m)^[ \t]*Password: ?"),
        answer="",
        wants_password=True,
    ),
)
"""Questions of the copy command about an SSH server. That about the host key is recognised by its text only."""


def describe_host_keys(host_keys: Path, *, makes: bool = True) -> tuple[str, ...]:
    """Return a line for each of our SSH host keys, with its kind and its fingerprints.

    Missing keys are generated if `makes` is set, and left out otherwise.

    Raises:
        SettingsInvalid: A key cannot be read, made or used, or others may read it.
    """
    return tuple(key.described for key in _host_keys(host_keys, makes=makes))


def _host_keys(folder: Path, *, makes: bool) -> tuple[HostKey, ...]:
    # Start time: it loads cryptography.
    from flashferry.sshserver import found_host_keys, load_host_keys

    return load_host_keys(folder) if makes else found_host_keys(folder)


def ssh_messages(title: str) -> Messages:
    """Return the messages for a failed copy by a protocol over SSH."""
    return Messages(
        no_client="no connection reached our SSH port",
        no_data="it logged in and takes nothing",
        hints={
            FailureCause.NO_CLIENT: (
                "Check route, firewall and access lists from the device to our SSH port, its VRF (inventory key 'vrf') "
                "and the address that it is given for us ('server_address')"
            ),
            FailureCause.NO_LOGIN: (
                "Look at the device's log: '%SSH-3-NO_MATCH' means no common algorithm, others a host key that "
                "it knows us by no more ('ip ssh stricthostkeycheck', 'ip ssh pubkey-chain')"
            ),
            FailureCause.WRONG_SOURCE: (
                "Something between us translates its address, or its SSH client comes from an interface of its own: "
                "name it in the inventory ('source_interface'), or log in to the device at the address that it comes "
                "from"
            ),
            FailureCause.NO_DATA: (
                f"It opened no {title} channel, or none that takes a byte: look at the device's log; bulk mode is "
                "known to break sessions on a Catalyst 9000v ('no ip ssh bulk-mode')"
            ),
            FailureCause.BROKEN_OFF: (
                "Look for loss and MTU trouble on the path, and for bulk mode at the device, which is known to break "
                "sessions on a Catalyst 9000v ('no ip ssh bulk-mode')"
            ),
        },
        stuck={
            FailureCause.NO_CLIENT: (
                "the device did not reach our SSH port",
                "Check route, access lists, VRF and source interface",
            ),
            FailureCause.NO_LOGIN: (
                "the device came but did not log in",
                "Look at its log for '%SSH-3-NO_MATCH' and for host keys",
            ),
            FailureCause.NO_DATA: (
                "the device logged in and takes nothing",
                "Look at its log, and at its bulk mode ('ip ssh bulk-mode')",
            ),
        },
        # The output after a failed login is unknown; it never means a lack of memory.
        says_little=SAYS_LITTLE,
        no_common=NO_COMMON,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh(Transport):
    """A protocol over SSH: SCP or SFTP, which one listener serves."""

    def url(self, offer: Offer) -> str:
        """Return the URL with the user only: the password is typed when the device asks for it."""
        return f"{self.name}://{offer.username}@{offer.place}"

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return the settings of a listener for SSH.

        Raises:
            ConfigInvalid: There is no folder for the host keys.
        """
        if options.host_keys is None:
            raise ConfigInvalid(
                "scp: expected a folder for the SSH host keys, found none", hint="Give the run a state folder"
            )
        # Start time: most commands serve nothing.
        from flashferry.sshserver import ssh_listener

        return ssh_listener(listen_address=options.address, port=options.port, host_keys=options.host_keys)

    def fingerprints(self, host_keys: Path, /) -> tuple[str, ...]:
        """Return the fingerprints of our host keys in all forms that devices show; missing keys are generated.

        Raises:
            SettingsInvalid: A key cannot be read, made or used, or others may read it.
        """
        return tuple(shown for key in _host_keys(host_keys, makes=True) for shown in key.fingerprints)


SCP = Ssh(
    name="scp",
    title="SCP",
    is_clear_text=False,
    has_channel=True,
    listener_name="ssh",
    ports=Ports(well_known=22, others=range(2222, 2232)),
    source=source_setting("ssh source-interface", "ip ssh source-interface"),
    questions=_QUESTIONS,
    words=ssh_messages("SCP"),
)

SFTP = replace(SCP, name="sftp", title="SFTP", words=ssh_messages("SFTP"))
