"""The excluded members of an elastic job in its store."""

import json
from contextlib import closing, suppress
from dataclasses import replace

from collalgo.bootstrap.store.at_url import StorePlace, running_store
from collalgo.bootstrap.store.job_keys import EXCLUDED
from collalgo.errors import BootstrapError


def excluded_at(place: StorePlace) -> frozenset[str]:
    """The names of the excluded members; none if the store is not reached at once."""
    with (
        suppress(BootstrapError, OSError, ValueError, RecursionError),
        closing(running_store(replace(place, seconds=0.0))) as store,
    ):
        entry = store.read(EXCLUDED)
        found = json.loads(entry.value) if entry else {}
        reasons = found.get("reasons") if isinstance(found, dict) else None
        return frozenset(reasons if isinstance(reasons, dict) else ())
    return frozenset()
