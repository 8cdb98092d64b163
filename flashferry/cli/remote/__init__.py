"""`flashferry --service URL VERB`: the verbs of the command line, carried out by a remote service.

They have the words and the output of the local ones as far as the service's API carries them; an option that it does
not carry is refused by its name. Nothing here talks to a device, and nothing of the service itself is imported.
"""

from __future__ import annotations

from collections.abc import Mapping

VERBS: Mapping[str, str] = {
    "check": "check_probe",
    "probe": "check_probe",
    "plan": "plan",
    "stage": "stage",
    "recover": "stage",
    "status": "journal",
    "run": "run",
    "history": "journal",
    "report": "journal",
}
"""Verbs that a service carries out, by the module here that has them; in the order of the help."""
