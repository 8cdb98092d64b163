"""Find the status of the host's depot, for `flashferry status` and `flashferry doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.depot.paths import AUTO, CATALOGUE, DepotNotRunning, DepotNotUsable, socket_of

if TYPE_CHECKING:
    from flashferry.depot.catalogue.folder import CatalogueSummary
    from flashferry.depot.handshake import DepotView


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotFound:
    """A depot's socket, with its status or the reason why it is unknown.

    Attributes:
        view: The depot's status; None: unknown.
        trouble: Why it is unknown, as a sentence; else empty.
        hint: What to do; else empty.
    """

    socket: Path
    view: DepotView | None = None
    trouble: str = ""
    hint: str = ""


def find_depot(state: Path, choice: str = AUTO) -> DepotFound | None:
    """Return the status of the depot that a run would use; None: a run would start its own server.

    Args:
        state: The state folder.
        choice: `auto`, `never`, or the path of a socket.
    """
    path = socket_of(choice, state)
    if path is None:
        return None
    # Late: most hosts have no depot, and its messages take time to import.
    from flashferry.depot.handshake import read_view

    try:
        return DepotFound(socket=path, view=read_view(path))
    except DepotNotRunning:
        hint = "Start it ('flashferry depot'); until then each run brings its own file server, and shares no site's cap"
        return DepotFound(socket=path, trouble=f"depot {path}: no depot is running there", hint=hint)
    except DepotNotUsable as error:
        return DepotFound(socket=path, trouble=str(error), hint="Run flashferry as the depot's user")
    except ConfigInvalid as error:
        return DepotFound(socket=path, trouble=error.message, hint=error.hint or "")
    except (ConnectionError, FlashferryError) as error:
        return DepotFound(socket=path, trouble=f"depot {path}: its status is not known: {error}", hint="Try again")


def catalogue_summary(state: Path, named: Path | None, depot: DepotFound | None) -> CatalogueSummary | None:
    """Return the catalogue's content without reading an image; None: there is no catalogue.

    Args:
        state: The state folder, which has the default catalogue.
        named: The folder, or None.
        depot: The host's depot, which offers a folder, or None.

    Raises:
        ConfigInvalid: The folder cannot be read, or is a file.
    """
    offered = depot.view.catalogue if depot is not None and depot.view is not None else ""
    folder = named or (Path(offered) if offered else state / CATALOGUE)
    if named is None and not folder.exists():
        return None
    # Here, for most hosts have no catalogue.
    from flashferry.depot.catalogue.folder import CatalogueFolder
    from flashferry.depot.options import catalogue_in

    return CatalogueFolder(catalogue_in(state, folder)).summary()
