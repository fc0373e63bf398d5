"""Builds the kernels for every target and checks their registers: what `cargo xtask cuda` runs.

The compiler is NVRTC 12.9 from PyPI, the oldest whose machine code covers all targets, so that old drivers load it.
It needs no GPU and no toolkit. Usage: build.py TOOLS [--check] [TARGET ...]; TOOLS is where the compiler is kept.
With --check nothing is written: kernels compile, none spills, and what is stored is what these sources compile to.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import zipfile

KERNELS = pathlib.Path(__file__).resolve().parent
BUILT = KERNELS / "built"
TARGETS = ["sm_80", "sm_90a", "sm_120", "compute_90"]
WHEEL = "nvidia-cuda-nvrtc-cu12==12.9.86"
# As in crates/cuda/src/images.rs.
SOURCES = [
    "forerunner.cu", "common.cuh", "weights.cuh", "norm.cuh", "few.cuh", "linear.cuh", "rows.cuh", "conv.cuh",
    "experts.cuh", "attention.cuh", "draw.cuh", "memory.cuh",
]
# Bytes that a kernel may spill: a few registers around its loops, none in them.
MOST_SPILLED = 64
# Bytes of shared memory that a kernel's own arrays may take: `OWN_SHARED` of crates/cuda/src/few.rs.
MOST_SHARED = 28 << 10
OPTIONS = ["--fmad=false", "--std=c++17", "-default-device", "--ptxas-options=-v", f"--include-path={KERNELS}"]


def source_hash():
    """FNV-1a of names and texts."""
    value = 0xCBF29CE484222325
    for name in SOURCES:
        for byte in name.encode() + b"\0" + (KERNELS / name).read_bytes() + b"\0":
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def compiler(tools):
    """Loads NVRTC, after fetching it once."""
    library = tools / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    if not library.exists():
        tools.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(tools), WHEEL]
        subprocess.run(command, check=True)
        for wheel in tools.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(tools)
    return ctypes.CDLL(str(library))


def compile_for(nvrtc, target):
    """The image for a target and what the compiler said of it."""
    program = ctypes.c_void_p()
    source = (KERNELS / "forerunner.cu").read_bytes()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"forerunner.cu", 0, None, None)
    options = [option.encode() for option in [f"--gpu-architecture={target}", *OPTIONS]]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    log = fetch(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
    if failed:
        sys.exit(f"{target}:\n{log}")
    if target.startswith("compute"):
        return fetch(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0"), log
    return fetch(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log


def fetch(size_of, get, program):
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    get(program, text)
    return text.raw


def resources(log):
    """Kernel, registers, spilled bytes and those of its own shared arrays, from the compiler's log."""
    pattern = r"entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers([^\n]*)"
    shared = lambda rest: int((re.search(r"(\d+) bytes smem", rest) or [0, 0])[1])
    found = re.findall(pattern, log, re.S)
    return [(name, int(registers), int(spilled), shared(rest)) for name, spilled, registers, rest in found]


def main():
    tools = pathlib.Path(sys.argv[1])
    check = "--check" in sys.argv
    targets = [argument for argument in sys.argv[2:] if argument != "--check"] or TARGETS
    nvrtc = compiler(tools)
    faults = []
    for target in targets:
        image, log = compile_for(nvrtc, target)
        used = resources(log)
        most = max(used, key=lambda kernel: kernel[1], default=("none", 0, 0, 0))
        print(f"{target}: {len(image)} bytes, {len(used)} kernels, most registers {most[1]} in {most[0]}", flush=True)
        faults += [f"{target} {name} spills {spilled} bytes" for name, _, spilled, _ in used if spilled > MOST_SPILLED]
        faults += [f"{target} {name} shares {shared} bytes" for name, _, _, shared in used if shared > MOST_SHARED]
        file = BUILT / f"{target}.{'ptx' if target.startswith('compute') else 'cubin'}"
        if not check:
            BUILT.mkdir(exist_ok=True)
            file.write_bytes(image)
        elif file.read_bytes() != image:
            faults.append(f"{target}: {file.name} is not what the sources compile to: run cargo xtask cuda")
    if faults:
        sys.exit("\n".join(faults))
    stored = BUILT / "hash.txt"
    if check and stored.read_text().strip() != source_hash():
        sys.exit("the stored kernels are of other sources: run cargo xtask cuda")
    if not check and targets == TARGETS:
        stored.write_text(source_hash() + "\n")


main()
