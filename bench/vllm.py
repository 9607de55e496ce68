"""Tokens per second of vLLM on CPUs over collalgo, its own shared memory and gloo.

In an environment with vLLM, such as that of ``make vllm``::

    python -m collalgo.bench.vllm race
    python -m collalgo.bench.vllm race --way collalgo --way gloo -- -H a:1,b:1

A decoder of random weights runs on two ranks. Each run starts an engine of its own, so
that no other one shares the cores; the ways alternate.
"""

import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from collalgo.cli.group import SETTINGS

#: The ways in which the ranks exchange data.
WAYS = ("collalgo", "shm", "gloo")

#: A small Llama.
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "float32",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}

#: The environment of an engine: one thread for each rank, and no network.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}

#: The tokens of each prompt, and the numbers of prompts that are continued at once.
PROMPTS = (5, 9, 17, 33)
SEQUENCES = (1, 4)

#: The seconds in which an engine ends.
SHUTDOWN = 60.0

RESULT = re.compile(r"result (\w+) (\d+) (\w+) (\d+) ([\d.]+)")
OF_RANK_0 = re.compile(rf"(?:^|\[0\] ){RESULT.pattern}", re.MULTILINE)


def decoder(way: str, folder: str) -> Any:
    """The engine, whose ranks are processes that vLLM or a launcher starts."""
    is_launched = "RANK" in os.environ
    if is_launched:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    check_platform(way)
    return LLM(
        folder, skip_tokenizer_init=True, load_format="dummy", dtype="bfloat16",
        tensor_parallel_size=2, enforce_eager=True, max_model_len=256, seed=0,
        worker_cls="collalgo.bench.vllm_gloo.GlooWorker" if way == "gloo" else "auto",
        kv_cache_memory_bytes=64 << 20, disable_log_stats=True,
        distributed_executor_backend="external_launcher" if is_launched else "mp",
    )  # fmt: skip


def check_platform(way: str) -> None:
    """Check that vLLM has found the plug-in, of which it ignores a missing one.

    Raises
    ------
    ClickException
        If its platform is not that of the way.
    """
    from vllm.platforms import current_platform

    backend = current_platform.dist_backend
    if (backend == "collalgo") != (way == "collalgo"):
        raise click.ClickException(
            f"{way}: the process groups of vLLM would have the backend {backend}; "
            "install collalgo again, so that its entry points are those of this version"
        )


def timed(model: Any, sequences: int, tokens: int) -> tuple[str, int, float]:
    """The hash of the tokens, the number of different ones, and tokens per second."""
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": [*range(3, 3 + n)]} for n in PROMPTS[:sequences]]
    wanted = SamplingParams(
        temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False
    )
    began = time.perf_counter()
    found = model.generate(prompts, wanted, use_tqdm=False)
    seconds = time.perf_counter() - began
    made = [list(each.outputs[0].token_ids) for each in found]
    text = hashlib.sha256(json.dumps(made).encode()).hexdigest()[:16]
    return text, len(set().union(*made)), sum(map(len, made)) / seconds


@click.group(help=(__doc__ or "").partition("\n")[0], context_settings=SETTINGS)
def main() -> None:
    """The command."""


tokens_option = click.option(
    "--tokens",
    default=64,
    type=click.IntRange(1),
    show_default=True,
    help="Tokens a sequence.",
)


@main.command()
@click.argument("way", type=click.Choice(WAYS))
@tokens_option
@click.option(
    "--repeats",
    default=3,
    type=click.IntRange(1),
    show_default=True,
    help="Runs of each.",
)
def engine(way: str, tokens: int, repeats: int) -> None:
    """Start an engine, and print its tokens per second."""
    os.environ.update(ENVIRONMENT, VLLM_PLUGINS="collalgo" if way == "collalgo" else "")
    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(CONFIG))
        model = decoder(way, folder)
        for _ in range(repeats):
            for sequences in SEQUENCES:
                text, different, rate = timed(model, sequences, tokens)
                print(f"result {way} {sequences} {text} {different} {rate:.1f}")
        # Shut the engine down here: at exit, multiprocessing would wait for it before
        # telling it to end. After 5 s vLLM would kill it, and leave its segments.
        model.llm_engine.engine_core.shutdown(timeout=SHUTDOWN)


def results(way: str, words: Sequence[str], options: Sequence[str]) -> Iterator[Any]:
    """What an engine prints, or its rank 0 if a launcher has started several."""
    command = [*words, sys.executable, "-m", "collalgo.bench.vllm", "engine", way]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False
    )
    found = OF_RANK_0.findall(done.stdout)
    if done.returncode or not found:
        raise click.ClickException(f"{way}: {done.stdout[-2000:]}{done.stderr[-4000:]}")
    for _, sequences, text, _, rate in found:
        yield int(sequences), text, float(rate)


@main.command()
@click.option(
    "--rounds",
    default=5,
    type=click.IntRange(1),
    show_default=True,
    help="Engines of each way.",
)
@tokens_option
@click.option("--way", "ways", multiple=True, type=click.Choice(WAYS), default=WAYS)
@click.argument("launch", nargs=-1)
def race(rounds: int, tokens: int, ways: Sequence[str], launch: Sequence[str]) -> None:
    """Compare the ways: tokens per second of each run, higher is better.

    With LAUNCH, the options of collalgo run, ranks are started by it, as on hosts.
    """
    words = [sys.executable, "-m", "collalgo", "run", *launch] if launch else []
    rates: dict[tuple[int, str], list[float]] = {}
    for _ in range(rounds):
        for way in ways:
            best: dict[int, float] = {}
            for sequences, text, rate in results(way, words, [f"--tokens={tokens}"]):
                best[sequences] = max(rate, best.get(sequences, 0))
                click.echo(f"{way} {sequences} {text} {rate}")
            for sequences, rate in best.items():
                rates.setdefault((sequences, way), []).append(rate)
    for (sequences, way), found in sorted(rates.items()):
        median = statistics.median(found)
        click.echo(f"{sequences} sequences, {way}: median {median:.0f}, {found}")


if __name__ == "__main__":
    main()
