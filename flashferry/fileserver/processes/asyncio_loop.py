"""The event loop of a process whose protocols are asyncio's: that of the other processes, as a guest of asyncio's.

Facts
-----

- The line to the parent and the watch over transfers are made for pyftpdlib's loop (see `protocol`). It waits on one
  descriptor, of epoll; that becomes readable when one of its sockets has an event (epoll(7), "Can I add an epoll file
  descriptor to another epoll instance"). So asyncio watches that descriptor, and has the guest take a turn then, or
  when its next timer is due.
- asyncio reports an exception in a callback to a handler of the loop; none is lost, and none ends
  the process.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from flashferry.fileserver.protocol import IOLoop

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("pyftpdlib")
_FAR_S = 3600.0
_PARTING_S = 0.2


class AsyncioLoop(IOLoop):
    """pyftpdlib's loop, run by asyncio's.

    Attributes:
        asyncio: The loop that runs it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asyncio = asyncio.new_event_loop()
        self.asyncio.set_exception_handler(_report)
        self.asyncio.add_reader(self.fileno(), self._take_turn)
        self._is_running: Callable[[], bool] = lambda: True
        self._timer: asyncio.TimerHandle | None = None

    def call_later(self, seconds: float, target: "Callable[..., Any]", *args: Any, **kwargs: Any) -> Any:
        """Call something after some seconds, see pyftpdlib; asyncio wakes up for it."""
        call = super().call_later(seconds, target, *args, **kwargs)
        self._wake_in(seconds)
        return call

    def run_while(self, is_running: "Callable[[], bool]") -> None:
        """Run both loops until that says no, which is asked behind each turn of the guest."""
        self._is_running = is_running
        asyncio.set_event_loop(self.asyncio)
        self._wake_in(0.0)
        self.asyncio.run_forever()

    def part(self) -> None:
        """Let go out what was said last, for a fifth of a second.

        The guest goes on taking its turns meanwhile, such as when the parent's end of the line closes. None of them
        stops the loop again: the wait for that fifth of a second would end as an error, and the process with it.
        """
        self._is_running = lambda: True
        self.asyncio.run_until_complete(asyncio.sleep(_PARTING_S))

    def _take_turn(self) -> None:
        wait_s = self.loop(0, blocking=False)
        if not self._is_running():
            self.asyncio.stop()
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake_in(_FAR_S if wait_s is None else wait_s)

    def _wake_in(self, seconds: float) -> None:
        due_s = self.asyncio.time() + max(0.0, seconds)
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = self.asyncio.call_at(due_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._take_turn()


def _report(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled exception where the errors of the other loop go."""
    error = context.get("exception")
    _LOG.error(context.get("message", "asyncio"), exc_info=error if isinstance(error, BaseException) else None)
