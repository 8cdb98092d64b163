"""What a run leaves of a terminal: after Ctrl-C the cursor is there again and the operator was told."""

import os
import pty
import select
import signal
import subprocess
import sys

from tests.patience import PATIENCE_S, killed_at_end, until

SCRIPT = """
from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.view.live import watching
from flashferry.monitor.events import Event, Progress

with watching("restore", devices=1) as emit, graceful_interrupt(emit.say) as stop:
    for share in range(1, 100):
        progress = Progress(acked_bytes=share, size_bytes=100, rate_bytes_per_s=1e6)
        emit(Event(host="r1", step="pull", status="progress", text="", at_s=0.0, progress=progress))
        if stop.wait(0.1):
            break
print("left in good order", flush=True)
"""
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def _read(master: int, last: str) -> str:
    """Return what the terminal got until a text is there, or until it was hung up."""
    parts: list[str] = []

    def is_read() -> bool:
        while select.select([master], (), (), 0)[0] and last not in "".join(parts):
            try:
                parts.append(os.read(master, 4096).decode(errors="replace"))
            except OSError:
                return True
        return last in "".join(parts)

    until(is_read, lambda: f"{last!r} after {''.join(parts)!r}")
    return "".join(parts)


def test_ctrl_c_leaves_a_sane_terminal() -> None:
    """The live table hides the cursor and shows it again, behind the sentence on what happens now."""
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    with killed_at_end(
        subprocess.Popen([sys.executable, "-P", "-c", SCRIPT], stdout=slave, stderr=slave, env=environment)
    ) as process:
        os.close(slave)
        begun = _read(master, "r1")
        process.send_signal(signal.SIGINT)
        text = begun + _read(master, "left in good order")
        assert process.wait(timeout=PATIENCE_S) == 0
    os.close(master)
    assert HIDE in text
    assert text.rindex(SHOW) > text.rindex(HIDE)
    assert "interrupted: ending what is under way and restoring every device" in text
    assert text.rindex(SHOW) < text.index("left in good order")
