"""Writes the demo target as GGUF, with the converter that comes in llama-cpp-python's source package.

    python to_gguf.py LLAMA_CPP MODEL OUTPUT.gguf [--type bf16|f32]

LLAMA_CPP is `vendor/llama.cpp` of the unpacked source package (README.md says how to get it).
"""

import argparse
import runpy
import sys
from pathlib import Path


def main():
    """Runs the converter on a tokenizer that it does not know."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--type", choices=["bf16", "f32"], default="bf16")
    arguments = parser.parse_args()
    converter = arguments.llama_cpp / "convert_hf_to_gguf.py"
    if not converter.exists():
        parser.error(f"{converter} is not there; accepted: vendor/llama.cpp of llama-cpp-python's source package")
    sys.path[:0] = [str(arguments.llama_cpp), str(arguments.llama_cpp / "gguf-py")]
    from conversion import base

    # The converter knows tokenizers by a hash of what they do to a text, and the demo's own is not among them. It decides how
    # texts are cut before they are tokens; here only tokens go in and come out.
    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "lfm2"
    sys.argv = [str(converter), str(arguments.model), "--outtype", arguments.type, "--outfile", str(arguments.output)]
    runpy.run_path(str(converter), run_name="__main__")


if __name__ == "__main__":
    main()
