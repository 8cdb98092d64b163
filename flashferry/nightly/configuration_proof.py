"""Compare the configurations of a lab's routers before and after the product ran."""

from __future__ import annotations

from collections.abc import Mapping

from flashferry.core.errors import FlashferryError
from flashferry.core.value_description import counted
from flashferry.nightly.backend import PlannedNode, Topology
from flashferry.nightly.lab_steps import in_parallel
from flashferry.nightly.night import Fault, NightFault, NightFigure, StepName
from flashferry.nightly.product import named
from flashferry.nightly.routers import Configurations, SshRouters, check_is_the_labs
from tasks.read_config import difference, fingerprint


class ConfigurationProof:
    """Compare the routers' configurations before and after the product ran, in own SSH sessions."""

    def __init__(self, routers: SshRouters, topology: Topology, addresses: Mapping[str, str]) -> None:
        self._routers, self._nodes, self._addresses = routers, topology.nodes, addresses
        self._before: dict[str, Configurations] = {}
        self._changed: list[str] = []

    @property
    def is_taken(self) -> bool:
        """Whether the configurations before the product's first change were read."""
        return bool(self._before)

    def take(self) -> None:
        """Read all configurations, and check that they belong to the lab's routers.

        Raises:
            NightFault: `DEVICE`: one cannot be read. `LAB`: another router answers at an address.
        """
        read = in_parallel(self._read_first, self._nodes)
        self._before = {node.label: one for node, one in zip(self._nodes, read, strict=True)}

    def check_again(self) -> tuple[NightFigure, ...]:
        """Read all configurations again; return how many lines each router gained."""
        found = in_parallel(self._compared, self._nodes)
        self._changed = [sentence for sentence, _ in found if sentence]
        return tuple(
            NightFigure(**named(node), what="lines left", value=float(lines))
            for node, (_, lines) in zip(self._nodes, found, strict=True)
            if lines is not None
        )

    def check(self) -> str:
        """Return a sentence on the result of `check_again`.

        Raises:
            NightFault: `PRODUCT`: a configuration differs or cannot be read.
        """
        if self._changed:
            raise NightFault(
                f"configurations are not what they were: {'; '.join(self._changed)}",
                fault=Fault.PRODUCT,
                step=StepName.JUDGE,
                hint="The product said otherwise, or nothing: report it with the night's folder",
                is_unrestored=True,
            )
        return f"running and startup configuration of {counted(len(self._nodes), 'router')} are what they were"

    def _read_first(self, node: PlannedNode) -> Configurations:
        address = self._addresses[node.label]
        try:
            found = self._routers.configurations(node, address)
        except FlashferryError as error:
            # Nothing of the product has been at it yet.
            hint = error.hint or "Look at its console log in the night's folder"
            message = f"its configuration cannot be read: {error.message}"
            raise NightFault(message, fault=Fault.DEVICE, step=StepName.CHECK, hint=hint, host=node.label) from error
        check_is_the_labs(node, address, found)
        return found

    def _compared(self, node: PlannedNode) -> tuple[str, int | None]:
        """Return the differences in words, and the number of added lines; None: unknown."""
        before = self._before[node.label]
        try:
            after = self._routers.configurations(node, self._addresses[node.label])
        except FlashferryError as error:
            return f"{node.label}: cannot be read any more: {error.message}", None
        pairs = (("running", before.running, after.running), ("startup", before.startup, after.startup))
        found = {name: difference(fingerprint(was, salt=node.label), now, salt=node.label) for name, was, now in pairs}
        text = "; ".join(f"{node.label}: {name}: {changed}" for name, changed in found.items() if changed)
        return text, len(found["running"].added)
