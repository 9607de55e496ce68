"""The environment with torch, which is large and installed only where it is wanted."""

import pytest

from tests.support.paths import ROOT

BIN = ROOT / ".venv-torch" / "bin"

NEEDS_TORCH = pytest.mark.skipif(
    not (BIN.parent / "installed").exists(), reason="torch is large: make torch"
)

NEEDS_JAX = pytest.mark.skipif(
    not [*BIN.parent.glob("lib/python*/site-packages/jax/__init__.py")],
    reason="JAX is large: make torch",
)
