"""`flashferry service ...`: the staging service for a team, one module per command; the work is in flashferry.service.

Without a subcommand it serves until a signal arrives. Subcommands manage the service's database.
"""

from __future__ import annotations

from flashferry.cli.command_line import App
from flashferry.cli.service.audit import app as audit
from flashferry.cli.service.begin import init
from flashferry.cli.service.serve import serve
from flashferry.cli.service.user import app as user

app = App(
    help="Serve pages and an API for a team: plans, approvals, runs, schedules, audit. Without a command: serve.",
    no_args_is_help=False,
    invoke_without_command=True,
)
app.callback()(serve)
app.command("init")(init)
app.add_typer(user, name="user")
app.add_typer(audit, name="audit")
