"""HTTPS, as the client of a device speaks it.

Facts
-----
* The command and what it prints are those of HTTP (`Accessing https://...`, `Loading https://...`, a Catalyst 9000 with
  a server of a public authority); settings and errors too, as far as anybody has seen.
* The device must trust our certificate: a trustpoint for its authority, or its own pool of public ones. Setting one up
  is several lines of configuration and a clock, so it is never done: a device without is refused before it is touched
  (`tasks.fetching.fit`).
* The name in the URL must be the certificate's. What a device says where it is not, or where its clock is wrong, no
  capture shows.
* There is no way from here to clear text: where this protocol fails it fails, for the ticket would cross in clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.transports.http import CLIENT_HINT, HTTP, WRONG_SOURCE_HINT
from flashferry.transports.server_view import FailureCause
from flashferry.transports.transport import SAYS_LITTLE, ListenOptions, Messages, Ports, Transport

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings

_TRUST = (
    "The device may not trust our certificate: its authority needs a trustpoint on the device ('show crypto pki "
    "trustpoints'), the address that the device is given for us ('server_address') must be the certificate's name, and "
    "the device's clock must be right"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Https(Transport):
    """HTTP over TLS."""

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return what the file server needs to listen for HTTPS.

        Raises:
            ConfigInvalid: The certificate or its key is not given.
        """
        if options.certificate is None or options.key is None:
            lacking = "a certificate without its key" if options.certificate else "no certificate"
            raise ConfigInvalid(
                f"https: expected a certificate and its key, found {lacking}",
                hint="Give both, of an authority that the devices trust already; or leave HTTPS out",
            )
        # Late: who only reads of settings, such as `status`, waits for no server to be imported.
        from flashferry.httpserver import https_listener

        return https_listener(
            listen_address=options.address, port=options.port, certificate=options.certificate, key=options.key
        )


HTTPS = Https(
    name="https",
    title="HTTPS",
    is_clear_text=False,
    takes_vrf=False,
    needs_trust=True,
    listener_name="https",
    ports=Ports(well_known=443, others=range(8443, 8453)),
    source=HTTP.source,
    words=Messages(
        no_client="no connection reached our HTTPS port",
        no_data="it asked for the image with its ticket and takes nothing",
        hints={
            FailureCause.NO_CLIENT: (
                f"Check route, firewall and access lists from the device to our HTTPS port, {CLIENT_HINT}"
            ),
            FailureCause.NO_LOGIN: _TRUST,
            FailureCause.WRONG_SOURCE: WRONG_SOURCE_HINT,
            FailureCause.NO_DATA: "Small packets pass and large ones do not: look for MTU trouble on the path",
            FailureCause.BROKEN_OFF: "Look for loss and MTU trouble on the path",
        },
        stuck={
            FailureCause.NO_CLIENT: (
                "the device did not reach our HTTPS port",
                "Check route, access lists and source interface",
            ),
            FailureCause.NO_LOGIN: ("the device came but did not ask with its ticket", _TRUST),
            FailureCause.NO_DATA: (
                "the device asked for the image and takes nothing",
                "Look for MTU trouble on the path",
            ),
        },
        says_little=SAYS_LITTLE,
    ),
)
