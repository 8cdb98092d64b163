"""HTTP and HTTPS for the file server: `GET` and `HEAD` of the one image of a ticket.

No path is resolved, nothing is listed or written, no redirect is sent. `flashferry.transports` combines it with the
file server; other packages use only the names below.
"""

from flashferry.httpserver.certificate import check_certificate
from flashferry.httpserver.listener import http_listener, https_listener

__all__ = ["check_certificate", "http_listener", "https_listener"]
