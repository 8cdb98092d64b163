"""`flashferry sites ...`: sites with agents of their own, one module per subject; the work is in `flashferry.sites`."""

from __future__ import annotations

from flashferry.cli.command_line import app_of

app = app_of(
    "Sites that work for themselves: an agent at each, and what they have in hand.",
    {
        "init": (
            "flashferry.cli.sites.setup:init",
            "Make a key and a commented configuration for a site's agent; what is there stays as it is.",
        ),
        "keys": (
            "flashferry.cli.sites.setup:keys",
            "Print the public key of each private key: one line, which the other end's configuration is given.",
        ),
        "agent": (
            "flashferry.cli.sites.setup:agent",
            (
                "Work for a site until Ctrl-C or SIGTERM: take signed orders, carry them out, "
                "and report what became of them."
            ),
        ),
        "list": (
            "flashferry.cli.sites.table:list_sites",
            "List sites with their agents: release, clock, last contact, what the depot has.",
        ),
        "runs": (
            "flashferry.cli.sites.table:list_runs",
            "List the latest runs that were given to sites, the newest first.",
        ),
        "show": (
            "flashferry.cli.sites.table:show_run",
            "Show a run's state at each site, the outcomes of its devices, and who asked for what.",
        ),
        "follow": (
            "flashferry.cli.sites.following:follow_run",
            "Follow a run of sites until it ends, and drive it; Ctrl-C ends only the following.",
        ),
        "report": (
            "flashferry.cli.sites.following:report_run",
            "Report a run of sites from the centre's ledger alone: one that ended or is under way.",
        ),
        "pause": (
            "flashferry.cli.sites.steering:pause",
            "Start no further device at the sites; those under way run to their end.",
        ),
        "continue": ("flashferry.cli.sites.steering:continue_run", "Continue a run that is paused at the sites."),
        "stop": (
            "flashferry.cli.sites.steering:stop",
            "End what is under way at the sites, restore every device and report.",
        ),
        "approve": ("flashferry.cli.sites.steering:approve", "Approve the next wave of a run at the sites."),
        "listen": (
            "flashferry.cli.sites.following:listen",
            "Collect what agents report and drive all runs of sites, until Ctrl-C or SIGTERM, which ends no run.",
        ),
    },
)
