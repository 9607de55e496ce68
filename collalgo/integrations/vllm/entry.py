"""The entry point ``vllm.platform_plugins``, which every process of vLLM loads.

It imports nothing else of the package, nor vLLM's platforms, which are being chosen.
"""

#: The name of the plug-in in ``VLLM_PLUGINS``.
NAME = "collalgo"


def platform() -> str | None:
    """The platform of this library, if ``VLLM_PLUGINS`` names it and vLLM is for CPUs.

    Without the variable vLLM loads all plug-ins, and the user has asked for none.
    """
    from vllm import envs, platforms
    from vllm.logger import init_logger

    if NAME not in (envs.VLLM_PLUGINS or ()):
        return None
    if platforms.cpu_platform_plugin() is None:
        init_logger("vllm.plugins.collalgo").warning(
            "collalgo serves vLLM on CPUs only, and this vLLM is for another device; "
            "take collalgo out of VLLM_PLUGINS"
        )
        return None
    return "collalgo.integrations.vllm.platform.CollalgoPlatform"
