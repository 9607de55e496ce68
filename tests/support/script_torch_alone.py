"""What a process with torch does alone: the scripts that are named, one by one.

``python -m tests.support.script_torch_alone NAME...``, each a module of this folder.
The first line is what ``import torch`` has imported of the package.
"""

import runpy
import sys

import torch  # noqa: F401

print(*(name for name in sys.modules if name.split(".")[0] == "collalgo"))
for name in sys.argv[1:]:
    print(f"{name}:", flush=True)
    runpy.run_module(f"tests.support.{name}", run_name="__main__")
