"""Plug-ins: what other installed packages add, found by their entry points.

A package names its additions in the metadata of its distribution, in one of the groups
below. An entry point is loaded when its name is asked for; algorithms are loaded by
:func:`load_plugins` and by commands. An import of collalgo loads none.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from collalgo.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: Modules that register algorithms by :func:`collalgo.algorithm` as they are imported.
ALGORITHMS = "collalgo.algorithms"

#: Functions of parameters that return a :class:`collalgo.Topology`.
TOPOLOGIES = "collalgo.topologies"

#: Functions without parameters that return an engine between hosts, by its name; see
#: :class:`collalgo.engine.transport.engine.Engine`.
TRANSPORTS = "collalgo.transports"

#: Functions of a :class:`collalgo.elastic.backends.Place`, by the scheme of a URL.
RENDEZVOUS = "collalgo.rendezvous"


def names(group: str) -> list[str]:
    """The names of the plug-ins of a group, sorted."""
    return sorted({each.name for each in _entry_points(group)})


def find(group: str, name: str) -> Any:
    """The object that a plug-in adds under a name; None if there is no such plug-in.

    Raises
    ------
    PluginError
        If it cannot be imported.
    """
    found = (each for each in _entry_points(group) if each.name == name)
    plugin = next(found, None)
    return plugin and _loaded(plugin)


def load_plugins() -> None:
    """Load the algorithms of other packages, which calls can then choose.

    All ranks call it, before their first collective.

    Raises
    ------
    PluginError
        If one cannot be imported.
    """
    for each in _entry_points(ALGORITHMS):
        _loaded(each)


def _entry_points(group: str) -> "Iterable[EntryPoint]":
    from importlib.metadata import entry_points  # which takes a while to import

    return entry_points(group=group)


def _loaded(plugin: "EntryPoint") -> Any:
    try:
        return plugin.load()
    except Exception as error:  # whatever the module of another package raises
        package = plugin.dist.name if plugin.dist else "an unknown package"
        raise PluginError(
            f"the plug-in {plugin.name} of {package} ({plugin.group}: {plugin.value}) "
            f"cannot be imported: {type(error).__name__}: {error}; repair or "
            "uninstall the package"
        ) from error
