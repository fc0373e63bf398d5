"""Makes the vectors that hold the fp32 reference to transformers.

For dense LFM2 and for LFM2-MoE: a tiny random fp32 checkpoint as transformers writes it, a prompt, and what
transformers computes for it. The results are committed, so this script is run only to change them:

    python3 -m venv /tmp/transformers
    /tmp/transformers/bin/pip install torch 'transformers>=5.24,<6' safetensors
    /tmp/transformers/bin/python crates/reference/transformers/make_vectors.py

It writes crates/reference/tests/transformers/{dense,moe}/:

    checkpoint/          config.json, generation_config.json, model.safetensors
    vectors.safetensors  prompt [T], reply [N]: token ids (int32); logits [T, vocabulary];
                         taps [T, (layers - 1) * hidden]: the residual stream after every layer but the last;
                         hidden [T, hidden]: after the final norm

Weights are drawn so that every part matters: norms away from 1, an expert bias that changes which experts are
picked, a rope base away from the default.
"""

import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import Lfm2Config, Lfm2ForCausalLM, Lfm2MoeConfig, Lfm2MoeForCausalLM

PROMPT_TOKENS = 24
REPLY_TOKENS = 24
# A reply with a closer call than this could differ for rounding alone.
LEAST_MARGIN = 1e-2

SHARED = dict(
    vocab_size=97,
    hidden_size=48,
    num_hidden_layers=4,
    layer_types=["conv", "full_attention", "conv", "full_attention"],
    num_attention_heads=4,
    num_key_value_heads=2,
    conv_L_cache=3,
    conv_bias=False,
    norm_eps=1e-5,
    rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
    max_position_embeddings=256,
    bos_token_id=1,
    eos_token_id=7,
    pad_token_id=0,
    tie_word_embeddings=True,
    attn_implementation="eager",
)


def dense():
    # The width on disk is 2/3 of 96: block_auto_adjust_ff_dim is in force.
    config = Lfm2Config(**SHARED, intermediate_size=96, block_auto_adjust_ff_dim=True, block_multiple_of=16)
    return Lfm2ForCausalLM(config)


def moe():
    config = Lfm2MoeConfig(
        **SHARED,
        intermediate_size=64,
        moe_intermediate_size=16,
        num_dense_layers=1,
        num_experts=6,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        use_expert_bias=True,
        routed_scaling_factor=1.5,
    )
    return Lfm2MoeForCausalLM(config)


def draw_weights(model, generator):
    """Replaces all weights; matrices keep the size of their input."""

    def normal(tensor, scale):
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale)

    with torch.no_grad():
        for name, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if "inv_freq" in name:
                continue
            if name.endswith("expert_bias"):
                normal(tensor, 0.3)
            elif "norm" in name:
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
            elif "embed_tokens" in name:
                normal(tensor, 1.0)
            elif "conv.conv" in name:
                normal(tensor, 0.6)
            else:
                normal(tensor, 1.4 / tensor.shape[-1] ** 0.5)


def compute(model, generator):
    """What transformers makes of a random prompt."""
    prompt = torch.randint(8, model.config.vocab_size, (1, PROMPT_TOKENS), generator=generator)
    with torch.no_grad():
        output = model(prompt, output_hidden_states=True, use_cache=False)
        ids = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=REPLY_TOKENS,
            eos_token_id=None,
        )
        best = model(ids, use_cache=False).logits[0, PROMPT_TOKENS - 1 : -1].topk(2).values
    margin = (best[:, 0] - best[:, 1]).min().item()
    vectors = {
        "prompt": prompt[0].to(torch.int32),
        "reply": ids[0, PROMPT_TOKENS:].to(torch.int32),
        "logits": output.logits[0],
        "taps": torch.cat(output.hidden_states[1:-1], dim=-1)[0],
        "hidden": output.hidden_states[-1][0],
    }
    return {name: tensor.contiguous() for name, tensor in vectors.items()}, margin


def make(name, build, folder):
    model = build().float().eval()
    seed, margin = 0, 0.0
    while margin < LEAST_MARGIN:
        seed += 1
        generator = torch.Generator().manual_seed(seed)
        draw_weights(model, generator)
        vectors, margin = compute(model, generator)
    shutil.rmtree(folder / name, ignore_errors=True)
    model.save_pretrained(folder / name / "checkpoint")
    save_file(vectors, folder / name / "vectors.safetensors")
    scale = vectors["logits"].abs().max().item()
    print(f"{name}: seed {seed}, logits up to {scale:.2f}, least margin of the reply {margin:.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    FOLDER = Path(__file__).resolve().parent.parent / "tests" / "transformers"
    make("dense", dense, FOLDER)
    make("moe", moe, FOLDER)
