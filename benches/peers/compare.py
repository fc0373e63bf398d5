"""The demo target in this engine and in others, in turn on the same machine: prompt and decode tokens a second.

    python compare.py --forerunner PATH --twin DIR [--gguf FILE] [--rounds N] [--threads N] [--receipt FILE]

Every round asks every engine the same: 512 tokens of a prompt, a reply of fixed length, and the golden prompts. README.md says how
the twin and the GGUF are made.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from pathlib import Path

from worker import PEERS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DEMO = ROOT / "assets" / "demo"

# Ends of a text and of a turn in the demo's vocabulary.
STOPS = [2, 7]
LONG_PROMPT = 512
FIXED_REPLY = 64
CONTEXT = 4096


class Worker:
    """Another engine, as worker.py runs it."""

    def __init__(self, name, engine, model, threads):
        self.name = name
        command = [sys.executable, str(HERE / "worker.py"), engine, str(model), str(threads), str(CONTEXT)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.read()["about"]

    def read(self):
        """The next answer; an engine that has ended says why on standard error."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended with status {self.process.wait()}")
        return json.loads(line)

    def reply(self, prompt, max_tokens, stops):
        """A reply and its times."""
        print(json.dumps({"prompt": prompt, "max_tokens": max_tokens, "stops": stops}), file=self.process.stdin, flush=True)
        return self.read()

    def stop(self):
        """Lets it end."""
        self.process.stdin.close()
        self.process.wait()


class Server:
    """`forerunner serve` with the demo drafter; `draft` as asked. Times are the engine's own."""

    def __init__(self, binary, model, threads):
        command = [binary, "serve", "--model", str(model), "--drafter", str(DEMO / "drafter"), "--device", "cpu"]
        command += ["--threads", str(threads), "--parallel", "1", "--context", str(CONTEXT), "--port", "0"]
        command += ["--prompt-cache-gib", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line.strip())
            if "listening on" in line:
                self.url = line.split()[-1]
                break
        else:
            raise SystemExit(f"forerunner serve has ended: {said}")
        self.about = next((line for line in said if "cpu (" in line), " ".join(said))
        self.model = self.ask("/v1/models")["data"][0]["id"]

    def ask(self, path, body=None):
        """What the server answers; what it refuses ends the program with its reason."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            raise SystemExit(f"forerunner {path}: status {refused.code}: {refused.read().decode()}") from refused

    def reply(self, prompt, max_tokens, stops, draft):
        """A reply and its times."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "draft": draft}
        body |= {"return_token_ids": True, "ignore_eos": not stops}
        whole = self.ask("/v1/completions", body)
        told = whole["forerunner"]
        tokens = whole["choices"][0]["token_ids"]
        return {"tokens": tokens, "prompt_s": told["prompt_ms"] / 1e3, "decode_s": told["decode_ms"] / 1e3}

    def stop(self):
        """As a signal stops it."""
        self.process.terminate()
        self.process.wait()


class Side:
    """A server's plain or drafted replies, as an engine of its own in the table."""

    def __init__(self, name, server, draft):
        self.name, self.server, self.draft, self.about = name, server, draft, server.about

    def reply(self, prompt, max_tokens, stops):
        """A reply and its times."""
        return self.server.reply(prompt, max_tokens, stops, self.draft)


def engines(arguments, stack):
    """All that run, ours first. What is started is put on the stack."""
    found = []
    for weights, model in [("4-bit", DEMO / "target"), ("bf16", arguments.twin)]:
        server = Server(arguments.forerunner, model, arguments.threads)
        stack.append(server)
        found += [Side(f"forerunner, {weights}", server, False), Side(f"forerunner, {weights}, drafted", server, True)]
    # MLX's CPU backend multiplies picked experts in fp32 only, or in its own quantized format.
    others = [("mlx, 4-bit", "mlx", DEMO / "target"), ("transformers, bf16", "transformers", arguments.twin)]
    if arguments.gguf:
        others.insert(0, ("llama.cpp, bf16", "llama.cpp", arguments.gguf))
    for name, engine, model in (other for other in others if other[1] in arguments.engines):
        worker = Worker(name, engine, model, arguments.threads)
        stack.append(worker)
        found.append(worker)
    return found


def golden():
    """The golden prompts with the replies that the 4-bit target, and so its bf16 twin, gives."""
    cases = json.loads((DEMO / "golden" / "target.json").read_text())
    return {name: (case["prompt_ids"], case["greedy_ids"]) for name, case in cases.items()}


def ask(engine, cases, index):
    """One round of one engine: raw seconds, and which golden replies it gives."""
    words = [token for prompt, _ in golden().values() for token in prompt[1:]]
    # No two rounds begin alike, so that nothing of a prompt is stored.
    long_prompt = ([1, 100 + index] + words * LONG_PROMPT)[:LONG_PROMPT]
    prompt_s = engine.reply(long_prompt, 1, [])["prompt_s"]
    decode_s = engine.reply(golden()["prose"][0], FIXED_REPLY, [])["decode_s"]
    replies = {}
    for name, (prompt, expected) in cases.items():
        reply = engine.reply(prompt, len(expected), STOPS)
        replies[name] = {key: reply[key] for key in ("prompt_s", "decode_s")}
        replies[name] |= {"reply_tokens": len(reply["tokens"]), "equal": reply["tokens"] == expected}
    return {"prompt_s": prompt_s, "decode_s": decode_s, "replies": replies}


def speeds(rounds, cases):
    """Medians over rounds: tokens a second of the long prompt, of the fixed reply, and of each golden reply."""

    def golden_speed(name):
        after_first = [(r["replies"][name]["reply_tokens"] - 1) / r["replies"][name]["decode_s"] for r in rounds]
        return statistics.median(after_first)

    return {
        "prompt_tokens_per_second": statistics.median(LONG_PROMPT / r["prompt_s"] for r in rounds),
        "decode_tokens_per_second": statistics.median((FIXED_REPLY - 1) / r["decode_s"] for r in rounds),
        "golden_tokens_per_second": {name: golden_speed(name) for name in cases},
        "golden_equal": sorted(name for name in cases if all(r["replies"][name]["equal"] for r in rounds)),
    }


def machine():
    """As receipts of `forerunner bench` tell it."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    processor = next((line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), platform.processor())
    memory = Path("/proc/meminfo").read_text().split()[1] if Path("/proc/meminfo").exists() else 0
    return {
        "processor": processor,
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": int(memory) << 10,
        "system": platform.platform(),
    }


def git(*words):
    """What git says, or nothing."""
    run = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    return run.stdout.strip() if run.returncode == 0 else None


def measure(arguments, cases):
    """Every round of every engine."""
    stack, rounds = [], {}
    try:
        running = engines(arguments, stack)
        for index in range(arguments.rounds + 1):
            for engine in running:
                found = ask(engine, cases, index)
                # The first round warms caches, pools and compilers, and is not counted.
                if index > 0:
                    rounds.setdefault(engine.name, []).append(found)
    finally:
        for started in stack:
            started.stop()
    return {engine.name: {"about": engine.about, "rounds": rounds[engine.name]} for engine in running}


def names(text):
    """Names between commas."""
    return text.split(",")


def main():
    """Measures, prints a table and writes the receipt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forerunner", default="forerunner", help="the binary")
    parser.add_argument("--twin", type=Path, required=True, help="what forerunner synth --dequantize wrote")
    parser.add_argument("--gguf", type=Path, help="what to_gguf.py wrote; without it llama.cpp is left out")
    parser.add_argument("--engines", type=names, default=[*PEERS], help="the others, such as llama.cpp,mlx [default: all]")
    parser.add_argument("--prompts", type=names, help="golden prompts, such as chat,math [default: all]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count, after one that does not")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--receipt", type=Path)
    parser.add_argument("--note")
    arguments = parser.parse_args()
    cases = {name: case for name, case in golden().items() if name in (arguments.prompts or golden())}
    if unknown := {*arguments.engines} - {*PEERS} | {*(arguments.prompts or [])} - {*cases}:
        parser.error(f"{', '.join(sorted(unknown))}: accepted are the engines {', '.join(PEERS)} and the prompts {', '.join(golden())}")
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    started = time.monotonic()
    peers = measure(arguments, cases)
    for name, peer in peers.items():
        peer |= speeds(peer["rounds"], cases)
        print(
            f"{name:<28} prompt {peer['prompt_tokens_per_second']:>8.0f} tok/s, decode {peer['decode_tokens_per_second']:>7.0f} tok/s,"
            f" {len(peer['golden_equal'])} of {len(cases)} golden replies"
        )
    if arguments.receipt:
        receipt = {
            "bench": "peers", "date": date, "command": ["python", *sys.argv], "commit": git("rev-parse", "HEAD"),
            "commit_is_changed": bool(git("status", "--porcelain", "--untracked-files=no")), "machine": machine(),
            "settings": {"rounds": arguments.rounds, "threads": arguments.threads, "prompt_tokens": LONG_PROMPT,
                         "reply_tokens": FIXED_REPLY},
            "seconds": time.monotonic() - started, "note": arguments.note, "peers": peers,
        }  # fmt: skip
        arguments.receipt.write_text(json.dumps(receipt) + "\n")


if __name__ == "__main__":
    main()
