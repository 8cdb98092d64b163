"""A protocol by which a client takes the serving process over: what it sends goes to the parent as it is."""

import socket
import threading
from collections.abc import Mapping
from typing import Any

from flashferry.fileserver.process import ControlLink
from flashferry.fileserver.protocol import Acceptor, AsyncChat, ServingContext

STAYS = b"stays"


class TakenOver(Acceptor):
    """A listener whose first client speaks for the process."""

    transfers_to_come = 0

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        super().__init__(ioloop=context.loop)
        self._listening = listening

    def open(self) -> None:
        self._listening.setblocking(False)
        self.set_socket(self._listening)
        self.listen(5)

    def handle_accepted(self, sock: socket.socket, addr: Any) -> None:
        Intruder(sock, self.ioloop)

    def drain(self) -> None:
        self.close()

    def close(self, reason: str = "") -> None:
        super().close()


class Intruder(AsyncChat):
    """The client; what it says ends with its connection."""

    def __init__(self, connection: socket.socket, ioloop: Any) -> None:
        super().__init__(connection, ioloop=ioloop)
        self._said = b""
        self.set_terminator(None)

    def collect_incoming_data(self, data: bytes) -> None:
        self._said += data

    def handle_close(self) -> None:
        self.close()
        (link,) = (each for each in self.ioloop.socket_map.values() if type(each).__name__ == ControlLink.__name__)
        if self._said == STAYS:
            link.socket.shutdown(socket.SHUT_RDWR)
            threading.Event().wait()
        else:
            link.push(self._said)
