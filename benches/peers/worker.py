"""One engine as a process: a request a line on standard input, what it took a line on standard output.

A request is `{"prompt": [token, ...], "max_tokens": n, "stops": [token, ...]}`. The answer has `tokens`, `prompt_s` (to the first
token) and `decode_s` (from there to the last). Decoding is greedy, and nothing of an earlier prompt is used again.
"""

import json
import sys
import time


class LlamaCpp:
    """llama.cpp by its C functions: between two tokens Python does next to nothing."""

    def __init__(self, model, threads, context):
        import ctypes

        import llama_cpp

        self.library, self.ctypes = llama_cpp, ctypes
        llama_cpp.llama_backend_init()
        silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        self.silent = silent
        self.model = llama_cpp.llama_model_load_from_file(
            str(model).encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            raise SystemExit(f"{model}: llama.cpp does not load it; accepted: a GGUF of the demo target")
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch = context, context
        parameters.n_threads = parameters.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, parameters)
        self.sampler = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        llama_cpp.llama_sampler_chain_add(self.sampler, llama_cpp.llama_sampler_init_greedy())
        self.about = f"llama-cpp-python {llama_cpp.__version__}; " + llama_cpp.llama_print_system_info().decode().strip()

    def start(self, prompt):
        """The first token."""
        self.library.llama_memory_clear(self.library.llama_get_memory(self.context), True)
        return self.decode(prompt)

    def decode(self, tokens):
        """The token after those."""
        array = (self.library.llama_token * len(tokens))(*tokens)
        batch = self.library.llama_batch_get_one(array, len(tokens))
        status = self.library.llama_decode(self.context, batch)
        if status != 0:
            raise SystemExit(f"llama_decode of {len(tokens)} tokens: status {status}")
        return self.library.llama_sampler_sample(self.sampler, self.context, -1)

    def next(self, token):
        """The token after one more."""
        return self.decode([token])


class Transformers:
    """transformers over torch, with its cache."""

    def __init__(self, model, threads, context):
        import torch
        import transformers

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).eval()
        self.about = f"transformers {transformers.__version__}, torch {torch.__version__}, bf16"

    def start(self, prompt):
        """The first token."""
        self.cache = None
        return self.forward(prompt)

    def forward(self, tokens):
        """The token after those."""
        with self.torch.inference_mode():
            output = self.model(
                input_ids=self.torch.tensor([tokens]), past_key_values=self.cache, use_cache=True, logits_to_keep=1
            )
        self.cache = output.past_key_values
        return int(output.logits[0, -1].argmax())

    def next(self, token):
        """The token after one more."""
        return self.forward([token])


class Mlx:
    """mlx-lm on MLX's CPU backend, which has no setting for threads."""

    def __init__(self, model, threads, context):
        import mlx.core
        import mlx_lm
        from mlx_lm.models.cache import make_prompt_cache

        self.mlx, self.make_cache = mlx.core, make_prompt_cache
        self.model, _ = mlx_lm.load(str(model))
        self.about = f"mlx {mlx.core.__version__} on {mlx.core.default_device()}, mlx-lm {mlx_lm.__version__}"

    def start(self, prompt):
        """The first token."""
        self.cache = self.make_cache(self.model)
        return self.forward(prompt)

    def forward(self, tokens):
        """The token after those."""
        logits = self.model(self.mlx.array([tokens]), cache=self.cache)
        return int(self.mlx.argmax(logits[0, -1]).item())

    def next(self, token):
        """The token after one more."""
        return self.forward([token])


PEERS = {"llama.cpp": LlamaCpp, "transformers": Transformers, "mlx": Mlx}


def reply(peer, prompt, max_tokens, stops):
    """A greedy reply and its times."""
    started = time.perf_counter()
    tokens = [peer.start(prompt)]
    first = time.perf_counter()
    while len(tokens) < max_tokens and tokens[-1] not in stops:
        tokens.append(peer.next(tokens[-1]))
    ended = time.perf_counter()
    return {"tokens": tokens, "prompt_s": first - started, "decode_s": ended - first}


def main():
    """Says what runs, then answers until there is no more."""
    name, model, threads, context = sys.argv[1:]
    peer = PEERS[name](model, int(threads), int(context))
    print(json.dumps({"about": peer.about}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(reply(peer, request["prompt"], request["max_tokens"], set(request["stops"]))), flush=True)


if __name__ == "__main__":
    main()
