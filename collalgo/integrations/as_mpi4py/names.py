"""The names that programs give to objects."""

from typing import Any, ClassVar


class Named:
    """An object with a name; a mixin of handles."""

    _state: Any
    state: Any
    null_name: ClassVar[str]

    def Get_name(self) -> str:
        """The name."""
        if self._state is None:
            return f"MPI_{self.null_name}"
        given = self._state.name
        return given or (self._state.predefined and f"MPI_{self._state.predefined}")

    def Set_name(self, name: str) -> None:
        """Set the name."""
        self.state.name = name

    name = property(Get_name, Set_name)
