from collections.abc import Callable, Iterable
from typing import Any

def run_callbacks(callbacks: Iterable[Callable[[Any], object]], work: Any) -> None: ...
