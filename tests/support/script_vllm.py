"""A decoder of random weights on two ranks of vLLM, over some path: its tokens.

``script_vllm.py collalgo|gloo|shm MODEL [NUMBER]`` makes ``NUMBER`` tokens for each of
some prompts, and prints their hash and the tokens per second, three times.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

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

SETTINGS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def worker(path):
    """The worker class of a path."""
    if path == "gloo":
        return "tests.support.vllm_gloo.GlooWorker"
    return "auto"


def decoder(path, folder):
    """The engine."""
    from vllm import LLM

    return LLM(
        folder, skip_tokenizer_init=True, load_format="dummy", dtype="bfloat16",
        tensor_parallel_size=2, enforce_eager=True, max_model_len=256, seed=0,
        worker_cls=worker(path), kv_cache_memory_bytes=64 << 20,
        distributed_executor_backend="mp", disable_log_stats=True,
    )  # fmt: skip


def main():
    path, folder, number = sys.argv[1], sys.argv[2], int((*sys.argv, 16)[3])
    plugins = "collalgo" if path == "collalgo" else ""
    os.environ.update(SETTINGS, VLLM_PLUGINS=plugins)
    Path(folder, "config.json").write_text(json.dumps(CONFIG))
    model = decoder(path, folder)
    from vllm import SamplingParams

    prompts = [{"prompt_token_ids": [*range(3, 3 + n)]} for n in (5, 9, 17, 33)]
    wanted = SamplingParams(
        temperature=0, max_tokens=number, ignore_eos=True, detokenize=False
    )
    for _ in range(3):
        began = time.perf_counter()
        found = model.generate(prompts, wanted, use_tqdm=False)
        seconds = time.perf_counter() - began
        tokens = [list(each.outputs[0].token_ids) for each in found]
        text = hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:16]
        count, different = sum(map(len, tokens)), len(set().union(*tokens))
        print(f"result {path} {text} {different} {count / seconds:.1f}")


if __name__ == "__main__":
    main()
