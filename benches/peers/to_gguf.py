"""Writes a checkpoint as GGUF, with the converter that comes in llama-cpp-python's source package.

    python to_gguf.py LLAMA_CPP MODEL OUTPUT.gguf [--type bf16|f32] [--target DIR]

LLAMA_CPP is `vendor/llama.cpp` of the unpacked source package (README.md says how to get it), MODEL a target in bf16 or in MLX's 4
bits, or a drafter of the model in DIR. Of 4-bit matrices it makes Q4_1 with the same steps: see `q4_1`. One tensor at a time is in memory.
"""

import argparse
import re
import runpy
import sys
from pathlib import Path

# MLX's names where they are others than those of the checkpoints that the converter knows.
NAMES = [
    (r"^model\.(layers\.\d+\.feed_forward)\.switch_mlp\.", r"\1.experts."),
    (r"\bgate_proj$", "w1"),
    (r"\bdown_proj$", "w2"),
    (r"\bup_proj$", "w3"),
]


def q4_1(weight, scales, biases):
    """A group of 64 weights, each a step times its scale plus its bias, as two blocks of 32 with the same steps: scale and bias in
    fp16 where they were bf16, then byte i with weight i low and weight 16 + i high."""
    import torch

    rows = weight.shape[:-1]
    pairs = weight.view(torch.uint8).reshape(*rows, -1, 16)
    steps = torch.stack([pairs & 15, pairs >> 4], dim=-1).reshape(*rows, -1, 32)
    packed = steps[..., :16] | steps[..., 16:] << 4
    both = torch.stack([scales, biases], dim=-1).to(torch.float16).repeat_interleave(2, dim=-2)
    return torch.cat([both.view(torch.uint8), packed], dim=-1).reshape(*rows, -1)


def eight_bits(weight, scales, biases):
    """The same in 8 bits, as numbers: routers, which llama.cpp has in f32."""
    import torch

    steps = weight.view(torch.uint8).reshape(*scales.shape, -1)
    return (steps * scales.float().unsqueeze(-1) + biases.float().unsqueeze(-1)).reshape(*scales.shape[:-1], -1)


def read_mlx(base):
    """Lets the converter read MLX's 4-bit format."""
    import gguf
    import torch

    base.LazyTorchTensor._dtype_str_map["U32"] = torch.int32
    stock = base.ModelBase.dequant_model

    def dequant_model(self):
        tensors = self.model_tensors
        for name in [name.removesuffix(".scales") for name in tensors if name.endswith(".scales")]:
            parts = [tensors.pop(f"{name}.{part}")() for part in ("weight", "scales", "biases")]
            for ours, theirs in NAMES:
                name = re.sub(ours, theirs, name)
            if parts[0].shape[-1] == 8 * parts[1].shape[-1]:
                self.ftype = gguf.LlamaFileType.MOSTLY_Q4_1
                data = q4_1(*parts).numpy()
                to = self.map_tensor_name(f"{name}.weight")
                self.gguf_writer.add_tensor(to, data, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
            else:
                tensors[f"{name}.weight"] = lambda parts=parts: eight_bits(*parts)
        for name, get in tensors.items():
            # MLX has a kernel's taps in the middle, the converter last.
            if name.endswith("conv.conv.weight"):
                tensors[name] = lambda get=get: get().reshape(get().shape[0], 1, -1)
        stock(self)

    base.ModelBase.dequant_model = dequant_model


def main():
    """Runs the converter on a tokenizer and a format that it does not know."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--type", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--target", type=Path, help="whose drafter MODEL is")
    arguments = parser.parse_args()
    converter = arguments.llama_cpp / "convert_hf_to_gguf.py"
    if not converter.exists():
        parser.error(f"{converter} is not there; accepted: vendor/llama.cpp of llama-cpp-python's source package")
    sys.path[:0] = [str(arguments.llama_cpp), str(arguments.llama_cpp / "gguf-py")]
    from conversion import base

    # The converter knows tokenizers by a hash of what they do to a text, and the demo's own is not among them. It decides how
    # texts are cut before they are tokens; here only tokens go in and come out.
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "lfm2"
    read_mlx(base)
    sys.argv = [str(converter), str(arguments.model), "--outtype", arguments.type, "--outfile", str(arguments.output)]
    if arguments.target:
        sys.argv += ["--target-model-dir", str(arguments.target)]
    runpy.run_path(str(converter), run_name="__main__")


if __name__ == "__main__":
    main()
