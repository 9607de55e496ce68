"""The reasons why a plan is not for some ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OfSize:
    """The number of ranks that plans are for."""

    size: int

    def __call__(self, size: int, /) -> str | None:
        """The reason why a plan is not for a number of ranks, or None."""
        if size != self.size:
            return f"the plan is for {self.size} ranks, not for {size}"
        return None


@dataclass(frozen=True)
class OfMachine:
    """The machine that plans are for."""

    machine: str

    def __call__(self, _: int, given: Mapping[str, Any], /) -> str | None:
        """The reason why a plan is not for this machine, or None."""
        machine = given.get("machine") or self.machine
        if machine != self.machine:
            return (
                f"the plan is for machine {machine!r}, and this is {self.machine!r}; "
                "leave the parameter out"
            )
        return None
