"""The interface of the agreement on failures, for a world on several hosts."""

from typing import TYPE_CHECKING, Any, Protocol

from collalgo.bootstrap.group_calls import GroupCalls

if TYPE_CHECKING:  # as few worlds need it
    from collalgo.bootstrap.last_calls import LastCalls
    from collalgo.bootstrap.survivors import Survivors


class FailureAgreement(Protocol):
    """The agreement of the ranks of a world on several hosts on a failure."""

    group_calls: GroupCalls
    last_calls: "LastCalls"

    def decision(self, failure: dict[str, Any]) -> dict[str, Any]:
        """The failure that all ranks agree on, from the one that this rank sees."""

    def ask(self) -> None:
        """Ask all ranks to compare their calls with those of this one."""

    def leave(self, exit_reason: str, *, in_order: bool) -> None:
        """Report to the ranks on other hosts that this one has left, and why."""

    def difference(self) -> dict[str, Any] | None:
        """The first call of a rank that has left and that differs from those here."""

    def revoke(self, sequence: int) -> None:
        """Fail the calls of ranks on other hosts, from a number on."""

    def survivors(self) -> "Survivors":
        """The agreement of the survivors on the lost ranks."""
