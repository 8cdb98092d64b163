"""`flashferry sites ...`: sites with agents of their own, one module per subject; the work is in `flashferry.sites`."""

from __future__ import annotations

from flashferry.cli.command_line import App
from flashferry.cli.sites import following, steering, table
from flashferry.cli.sites.setup import agent, init, keys

app = App(help="Sites that work for themselves: an agent at each, and what they have in hand.", no_args_is_help=True)
app.command("init")(init)
app.command("keys")(keys)
app.command("agent")(agent)
table.register(app)
following.register(app)
steering.register(app)
app.command("listen")(following.listen)
