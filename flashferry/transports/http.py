"""HTTP and HTTPS as a device's client uses them.

Facts
-----
* `copy http://user:password@host[:port]/name`: the device sends the credentials with its first request (`Authorization:
  Basic`, packet bytes of an old release), so they have letters and digits only. A port in the URL works from 12.2 SE.
* One connection carries request and image, so a firewall has no second connection to follow and NAT no address to
  translate. It is clear text as FTP is.
* The command takes no VRF (pyntc); the configuration line `ip http client source-interface NAME` selects it.
* It prints `Accessing http://*:*@host/name...` and `Loading http://host/name ` with the whole URL, then progress marks,
  and no `[OK`. The line with the byte count is the same as with every protocol (captures of a Catalyst 3850 and of a
  router to `null:`).
* `(I/O error)` is its only error message; our server's record of the transfer separates the causes. After the first
  byte it may mean a lack of memory (a 2960X at the largest window, austind/iosfw issue 2).
* Unknown: how it handles a redirect, a chunked response or a challenge. Our server sends none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid
from flashferry.transports.transport import (
    SAYS_LITTLE,
    FailureCause,
    ListenOptions,
    Messages,
    Ports,
    Transport,
    source_setting,
)

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings

CLIENT_HINT = (
    "its source interface (inventory key 'source_interface': the device's HTTP client takes no VRF with the command) "
    "and the address that it is given for us ('server_address')"
)
"""What else to check if no client connected."""

WRONG_SOURCE_HINT = (
    "Something between us translates its address, or its HTTP client comes from an interface of its own: name it in "
    "the inventory ('source_interface'), or log in to the device at the address that it comes from"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Http(Transport):
    """Copy by HTTP: one connection, in clear text."""

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return the settings of a listener for HTTP."""
        # Start time: most commands serve nothing.
        from flashferry.httpserver import http_listener

        return http_listener(listen_address=options.address, port=options.port)


HTTP = Http(
    name="http",
    title="HTTP",
    is_clear_text=True,
    takes_vrf=False,
    listener_name="http",
    ports=Ports(well_known=80, others=range(8080, 8090)),
    source=source_setting("http source-interface", "ip http client source-interface"),
    words=Messages(
        no_client="no connection reached our HTTP port",
        no_data="it asked for the image with its ticket and takes nothing",
        hints={
            FailureCause.NO_CLIENT: (
                f"Check route, firewall and access lists from the device to our HTTP port, {CLIENT_HINT}"
            ),
            FailureCause.NO_LOGIN: (
                "The device may have left the credentials of the URL out, or something between us answers in our place "
                "(a proxy: 'ip http client proxy-server', a firewall that inspects HTTP)"
            ),
            FailureCause.WRONG_SOURCE: WRONG_SOURCE_HINT,
            FailureCause.NO_DATA: (
                "Small packets pass and large ones do not, or a firewall holds the answer back: look for MTU trouble "
                "on the path and for what inspects HTTP"
            ),
            FailureCause.BROKEN_OFF: "Look for loss and MTU trouble on the path",
        },
        stuck={
            FailureCause.NO_CLIENT: (
                "the device did not reach our HTTP port",
                "Check route, access lists and source interface",
            ),
            FailureCause.NO_LOGIN: (
                "the device came but did not ask with its ticket",
                "Check that no proxy or firewall between us answers HTTP",
            ),
            FailureCause.NO_DATA: (
                "the device asked for the image and takes nothing",
                "Look for MTU trouble on the path",
            ),
        },
        says_little=SAYS_LITTLE,
    ),
)

_TRUST = (
    "The device may not trust our certificate: its authority needs a trustpoint on the device ('show crypto pki "
    "trustpoints'), the address that the device is given for us ('server_address') must be the certificate's name, and "
    "the device's clock must be right"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Https(Transport):
    """Copy by HTTP over TLS, with the certificate given for our server."""

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return the settings of a listener for HTTPS.

        Raises:
            ConfigInvalid: The certificate or its key is not given.
        """
        if options.certificate is None or options.key is None:
            lacking = "a certificate without its key" if options.certificate else "no certificate"
            raise ConfigInvalid(
                f"https: expected a certificate and its key, found {lacking}",
                hint="Give both, of an authority that the devices trust already; or leave HTTPS out",
            )
        # Start time, as above.
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
