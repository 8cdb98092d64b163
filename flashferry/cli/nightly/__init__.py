"""`flashferry nightly ...`: nightly lab runs, one module per command; the work is in `flashferry.nightly`.

Controller clients are imported only when a command is called.
"""

from __future__ import annotations

from flashferry.cli.command_line import App
from flashferry.cli.nightly.begin import init
from flashferry.cli.nightly.history import history
from flashferry.cli.nightly.reap import reap
from flashferry.cli.nightly.record import record
from flashferry.cli.nightly.run import run

app = App(help="Take a lab up, stage on it, judge the night, leave nothing running.")
app.command("run")(run)
app.command("reap")(reap)
app.command("init")(init)
app.command("history")(history)
app.command("record")(record)
