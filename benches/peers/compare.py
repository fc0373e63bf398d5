"""A model in this engine and in others, in turn on the same machine: prompt and decode tokens a second.

    python compare.py --forerunner PATH [--model DIR --drafter DIR] [--twin DIR] [--gguf FORMAT=FILE] [--gguf-drafter FILE]
        [--llama-server PATH] [--llama-drafts N,N] [--engines NAMES] [--prompts NAMES] [--rounds N] [--threads N] [--receipt FILE]

Every round asks every engine the same: a long prompt with a reply of fixed length, and the golden prompts. README.md says how the
other files are made. Without --model it is the demo target, its drafter and, as --twin, its weights in bf16.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
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
PAUSE_S = 0.5
ENGINES = ["llama-server", *PEERS]
# How many drafts llama.cpp makes at most: its default, and as many as the drafter's blocks have.
LLAMA_DRAFTS = "3,9"


class Worker:
    """Another engine, as worker.py runs it."""

    plain = None

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
    """A process that answers on loopback, where it says that it is listening."""

    def __init__(self, command, threads):
        command = [*command, "--threads", threads, "--parallel", 1, "--port", 0]
        self.process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line.strip())
            if "listening on" in line:
                self.url = line.split()[-1]
                break
        else:
            raise SystemExit(f"{command[0]} has ended: {self.said}")
        # What a process says and nobody reads would stop it at last.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def ask(self, path, body=None):
        """What the server answers; what it refuses ends the program with its reason."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            raise SystemExit(f"{self.url}{path}: status {refused.code}: {refused.read().decode()}") from refused

    def stop(self):
        """As a signal stops it."""
        self.process.terminate()
        self.process.wait()


def drafts(told):
    """How many drafts were made for a reply and how many of them are in it: both servers have the same names."""
    return {key: told[key] for key in ("draft_n", "draft_n_accepted") if key in told}


class Forerunner(Server):
    """`forerunner serve` with its drafter. Times are the engine's own."""

    def __init__(self, binary, model, drafter, threads):
        options = ["--model", model, "--drafter", drafter, "--device", "cpu", "--context", CONTEXT, "--prompt-cache-gib", 0]
        super().__init__([binary, "serve", *options], threads)
        self.about = next((line for line in self.said if "cpu (" in line), " ".join(self.said))
        self.model = self.ask("/v1/models")["data"][0]["id"]

    def reply(self, prompt, max_tokens, stops, draft):
        """A reply and its times."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "draft": draft}
        body |= {"return_token_ids": True, "ignore_eos": not stops}
        whole = self.ask("/v1/completions", body)
        told = whole["forerunner"]
        tokens = whole["choices"][0]["token_ids"]
        times = {"prompt_s": told["prompt_ms"] / 1e3, "decode_s": told["decode_ms"] / 1e3}
        return {"tokens": tokens} | times | (drafts(told) if draft else {})


class LlamaServer(Server):
    """llama.cpp's server, with a DSpark drafter or without. Times are its own."""

    def __init__(self, name, plain, binary, options, threads):
        self.name, self.plain = name, plain
        # Nothing of an earlier prompt is kept.
        options += ["--cache-ram", 0, "--ctx-checkpoints", 0]
        super().__init__([binary, *options, "--threads-batch", threads, "--ctx-size", CONTEXT, "--no-webui"], threads)
        words = [word.name if isinstance(word, Path) else str(word) for word in options]
        self.about = f"llama-server {self.ask('/props')['build_info']} {' '.join(words)}"

    def reply(self, prompt, max_tokens, stops):
        """A reply and its times."""
        body = {"prompt": prompt, "n_predict": max_tokens, "temperature": 0, "samplers": ["temperature"], "cache_prompt": False}
        whole = self.ask("/completion", body | {"return_tokens": True, "ignore_eos": not stops})
        told = whole["timings"]
        times = {"prompt_s": told["prompt_ms"] / 1e3, "decode_s": told["predicted_ms"] / 1e3}
        return {"tokens": whole["tokens"]} | times | drafts(told)


class Side:
    """A server's plain or drafted replies, as an engine of its own in the table."""

    def __init__(self, name, plain, server):
        self.name, self.plain, self.server, self.about = name, plain, server, server.about

    def reply(self, prompt, max_tokens, stops):
        """A reply and its times."""
        return self.server.reply(prompt, max_tokens, stops, self.plain is not None)


def engines(arguments, stack):
    """All that run, ours first. What is started is put on the stack."""
    found, threads = [], arguments.threads

    def start(engine, *parameters):
        stack.append(engine(*parameters))
        return stack[-1]

    for weights, model in [("4-bit", arguments.model), ("bf16", arguments.twin)]:
        if model:
            name = f"forerunner, {weights}"
            server = start(Forerunner, arguments.forerunner, model, arguments.drafter, threads)
            found += [Side(name, None, server), Side(f"{name}, drafted", name, server)]
    for weights, file in arguments.gguf.items():
        name = f"llama-server, {weights}"
        if "llama-server" in arguments.engines and arguments.llama_server:
            found.append(start(LlamaServer, name, None, arguments.llama_server, ["--model", Path(file)], threads))
            for most in arguments.llama_drafts if arguments.gguf_drafter else []:
                options = ["--model", Path(file), "--spec-type", "draft-dspark", "--spec-draft-n-max", most]
                options += ["--spec-draft-model", arguments.gguf_drafter]
                found.append(start(LlamaServer, f"{name}, {most} drafts", name, arguments.llama_server, options, threads))
        if "llama.cpp" in arguments.engines:
            found.append(start(Worker, f"llama.cpp, {weights}", "llama.cpp", file, threads))
    # MLX's CPU backend multiplies picked experts in fp32 only, or in its own quantized format.
    if "mlx" in arguments.engines:
        found.append(start(Worker, "mlx, 4-bit", "mlx", arguments.model, threads))
    if "transformers" in arguments.engines and arguments.twin:
        found.append(start(Worker, "transformers, bf16", "transformers", arguments.twin, threads))
    return found


def golden():
    """The golden prompts with the replies that the 4-bit target, and so its bf16 twin, gives."""
    cases = json.loads((DEMO / "golden" / "target.json").read_text())
    return {name: (case["prompt_ids"], case["greedy_ids"]) for name, case in cases.items()}


def ask(engine, cases, index):
    """One round of one engine: raw seconds, what was replied, and which golden replies it gives."""
    # The long prompt has the golden chats and ends with one that asks for code, whose reply accepts many drafts. No two rounds begin
    # alike, so that nothing of a prompt is stored.
    words = [token for prompt, reply in golden().values() for token in prompt[1:] + reply]
    end = golden()["code_chat"][0][1:]
    long_prompt = ([1, 100 + index] + words * LONG_PROMPT)[: LONG_PROMPT - len(end)] + end

    def reply(prompt, max_tokens, stops):
        told = engine.reply(prompt, max_tokens, stops)
        tokens = told.pop("tokens")
        return told | {"reply_tokens": len(tokens), "reply": hashlib.sha256(str(tokens).encode()).hexdigest()[:16]}, tokens

    long, _ = reply(long_prompt, FIXED_REPLY, [])
    replies = {}
    for name, (prompt, expected) in cases.items():
        replies[name], tokens = reply(prompt, len(expected), STOPS)
        replies[name]["equal"] = tokens == expected
    return long | {"replies": replies}


def speeds(peer, cases, peers):
    """Medians over rounds: tokens a second of the long prompt, of its reply, and of each golden reply; and which replies are golden, or
    as the plain ones of the same engine."""
    rounds = peer["rounds"]

    def decode(replies):
        return statistics.median((reply["reply_tokens"] - 1) / reply["decode_s"] for reply in replies)

    def answers(peer, name):
        return [(r if name == "long" else r["replies"][name])["reply"] for r in peer["rounds"]]

    found = {
        "prompt_tokens_per_second": statistics.median(LONG_PROMPT / r["prompt_s"] for r in rounds),
        "decode_tokens_per_second": decode(rounds),
        "golden_tokens_per_second": {name: decode(r["replies"][name] for r in rounds) for name in cases},
        "golden_equal": sorted(name for name in cases if all(r["replies"][name]["equal"] for r in rounds)),
    }
    if peer["plain"]:
        all_names = ["long", *sorted(cases)]
        differing = [name for name in all_names if answers(peer, name) != answers(peers[peer["plain"]], name)]
        found["drafted_is_plain"] = {"compared": len(all_names), "differing": differing}
    return found


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
                # Threads of the engine before may still wait in a loop for more work.
                time.sleep(PAUSE_S)
                found = ask(engine, cases, index)
                # The first round warms caches, pools and compilers, and is not counted.
                if index > 0:
                    rounds.setdefault(engine.name, []).append(found)
    finally:
        for started in stack:
            started.stop()
    return {engine.name: {"about": engine.about, "plain": engine.plain, "rounds": rounds[engine.name]} for engine in running}


def names(text):
    """Names between commas."""
    return text.split(",")


def main():
    """Measures, prints a table and writes the receipt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forerunner", default="forerunner", help="the binary")
    parser.add_argument("--model", type=Path, default=DEMO / "target", help="in 4 bits [default: the demo target]")
    parser.add_argument("--drafter", type=Path, default=DEMO / "drafter", help="[default: the demo drafter]")
    parser.add_argument("--twin", type=Path, help="the model as forerunner synth --dequantize wrote it")
    parser.add_argument("--gguf", type=lambda text: text.split("=", 1), action="append", metavar="FORMAT=FILE",
                        help="what to_gguf.py or llama-quantize wrote; without it llama.cpp is left out")  # fmt: skip
    parser.add_argument("--gguf-drafter", type=Path, help="the drafter, for DSpark in llama.cpp's server")
    parser.add_argument("--llama-server", help="the binary; without it llama.cpp's server is left out")
    parser.add_argument("--llama-drafts", type=names, default=LLAMA_DRAFTS, help=f"most drafts a round [default: {LLAMA_DRAFTS}]")
    parser.add_argument("--engines", type=names, default=ENGINES, help="the others, such as llama.cpp,mlx [default: all]")
    parser.add_argument("--prompts", type=names, help="golden prompts, such as chat,math [default: all]")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count, after one that does not")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--receipt", type=Path)
    parser.add_argument("--note")
    arguments = parser.parse_args()
    arguments.gguf = dict(arguments.gguf or [])
    cases = {name: case for name, case in golden().items() if name in (arguments.prompts or golden())}
    if unknown := {*arguments.engines} - {*ENGINES} | {*(arguments.prompts or [])} - {*cases}:
        parser.error(f"{', '.join(sorted(unknown))}: accepted are the engines {', '.join(ENGINES)} and the prompts {', '.join(golden())}")
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    started = time.monotonic()
    peers = measure(arguments, cases)
    for name, peer in peers.items():
        peer |= speeds(peer, cases, peers)
        as_plain = peer.get("drafted_is_plain")
        print(
            f"{name:<28} prompt {peer['prompt_tokens_per_second']:>8.1f} tok/s, decode {peer['decode_tokens_per_second']:>7.1f} tok/s,"
            f" {len(peer['golden_equal'])} of {len(cases)} golden replies"
            + (f", {len(as_plain['differing'])} of {as_plain['compared']} other than plain" if as_plain else "")
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
