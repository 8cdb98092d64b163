"""HTTP and HTTPS on the file server: one image by one ticket, `GET` or `HEAD`, and nothing else.

No path is resolved, nothing is listed, nothing is written, no redirect is sent. Other packages use what this
module names; `flashferry.transports` puts it together with the file server.
"""

from flashferry.httpserver.certificate import check_certificate
from flashferry.httpserver.listener import http_listener, https_listener

__all__ = ["check_certificate", "http_listener", "https_listener"]
