"""SCP, as the client of a device speaks it.

Facts
-----
* `copy scp://user@host[:port]/name`: without a password in the URL the device asks `Password: ` and echoes nothing of
  what is typed (genielibs). So the ticket's password stands in no command line and in no command accounting. A port in
  the URL is coded by one peer and was seen on no device: port 22 is worth having.
* It may ask for address, user and file although the URL has them, then for the target, for the overwriting, and for the
  password last (ASR903, XE 3.16).
* Where FTP prints `Loading` it prints ` Sending file modes: C0777 4 testme.bin`, then marks; no `[OK`. The line that
  counts the bytes is the same, its seconds have the login in them.
* `vrf NAME` stands behind the target; `ip ssh source-interface NAME` is a configuration line for all that the device
  opens by SSH.
* Inside TCP's window there is another one, the channel's: 8192 bytes on 16.x, 131072 where bulk mode is on, which it is
  by default from 17.10.1. `ip ssh bulk-mode N` and `ip ssh window-size N` widen it (`flashferry.devices.platforms`).
* Unknown: what it says to a wrong password, a changed host key, or where the channel ends in mid-copy. With no common
  algorithm `ssh` logs `%SSH-3-NO_MATCH` and prints `[Connection to ... aborted: error status 0]`.
* A host key may be asked about, `Are you sure you want to continue connecting`; pyATS answers `yes`, no capture shows
  the question whole. Ours is confirmed by its fingerprint only, see `flashferry.transports.copy_dialogue`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
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

NO_COMMON = (
    "Have the device take one of our server's for the time of the copy ('ip ssh client algorithm encryption', 'mac' or "
    "'kex'; 'no ip ssh client algorithm ...' where its list was shortened), or take another transport"
)

"""What to do where device and server have no algorithm in common. Before 17 the older ones are offered anyway."""

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

"""What the copy command asks about an SSH server. The host key's question is known by its words alone."""


def described_keys(host_keys: Path, *, makes: bool = True) -> tuple[str, ...]:
    """Return each of our host keys in words: its kind, and its fingerprints with what each of them is.

    With `makes` those that are not there yet are made; else they are left out.

    Raises:
        SettingsInvalid: A key cannot be read, made or used, or others may read it.
    """
    from flashferry.sshserver import found_host_keys, load_host_keys

    keys = load_host_keys(host_keys) if makes else found_host_keys(host_keys)
    return tuple(key.described for key in keys)


def words_of(title: str) -> Messages:
    """Return the messages for a protocol over SSH that fails."""
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
        # What it says of a login that came to nothing is unknown; it is no want of memory in any case.
        says_little=SAYS_LITTLE,
        no_common=NO_COMMON,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh(Transport):
    """What goes over SSH: SCP and SFTP, which one listener of ours serves."""

    def url(self, offer: Offer) -> str:
        """Return the URL with the user alone: the password is typed where it is asked for."""
        return f"{self.name}://{offer.username}@{offer.place}"

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return what the file server needs to listen for SSH.

        Raises:
            ConfigInvalid: There is no folder for the host keys.
        """
        if options.host_keys is None:
            raise ConfigInvalid(
                "scp: expected a folder for the SSH host keys, found none", hint="Give the run a state folder"
            )
        # Late: who only reads of settings, such as `status`, waits for no server to be imported.
        from flashferry.sshserver import ssh_listener

        return ssh_listener(listen_address=options.address, port=options.port, host_keys=options.host_keys)

    def fingerprints(self, host_keys: Path, /) -> tuple[str, ...]:
        """Return the fingerprints of our host keys, which are made where missing, in all forms that devices show.

        Raises:
            SettingsInvalid: A key cannot be read, made or used, or others may read it.
        """
        from flashferry.sshserver import load_host_keys

        return tuple(shown for key in load_host_keys(host_keys) for shown in key.fingerprints)


SCP = Ssh(
    name="scp",
    title="SCP",
    is_clear_text=False,
    has_channel=True,
    listener_name="ssh",
    ports=Ports(well_known=22, others=range(2222, 2232)),
    source=source_setting("ssh source-interface", "ip ssh source-interface"),
    questions=_QUESTIONS,
    words=words_of("SCP"),
)

SFTP = replace(SCP, name="sftp", title="SFTP", words=words_of("SFTP"))
