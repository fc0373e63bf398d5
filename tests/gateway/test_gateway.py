"""What an engine is to a gateway: each test is a row of docs/scale-out.md."""

import signal
import time

from conftest import wait

ROUTED = "x-smg-routed-worker-id"

# Longer than what a gateway and an engine share of any two chats.
BEGINNING = "The quick brown fox jumps over the lazy dog. " * 40

# A reply that lasts until somebody ends it.
LASTING = {"max_tokens": 7000, "ignore_eos": True}


def affine(gateway, engines, mark):
    """The engine to which a beginning is bound, and another one."""
    url = gateway.chat(mark + BEGINNING, max_tokens=1).headers[ROUTED]
    bound = next(engine for engine in engines if engine.url == url)
    return bound, next(engine for engine in engines if engine is not bound)


def tokens_in(seconds, engine):
    """How long a reply takes some seconds on this machine: longer than a test looks away, shorter than a drain waits."""
    begin = time.monotonic()
    engine.chat("Count.", max_tokens=32, ignore_eos=True)
    return min(7000, 1 + int(32 * seconds / (time.monotonic() - begin)))


def test_one_beginning_stays_on_one_engine_and_is_not_computed_again(fleet):
    gateway, engines = fleet
    bound, _ = affine(gateway, engines, "affinity ")
    for turn in range(3):
        answer = gateway.chat(f"affinity {BEGINNING} Turn {turn}?")
        assert answer.headers[ROUTED] == bound.url
        assert answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_replies_are_equal_with_and_without_drafts_through_the_gateway(fleet, questions):
    gateway, _ = fleet
    drafts, differ = 0, 0
    for question in questions:
        for temperature in [0, 0.8]:
            same = {"temperature": temperature, "seed": 11, "max_tokens": 48, "return_token_ids": True}
            drafted = gateway.chat(question, draft=True, **same).json()
            plain = gateway.chat(question, draft=False, **same).json()
            assert drafted["choices"][0]["token_ids"] == plain["choices"][0]["token_ids"], question
            assert plain["forerunner"]["draft_n"] == 0
            drafts += drafted["forerunner"]["draft_n"]
        another = gateway.chat(question, **{**same, "seed": 12}).json()
        differ += another["choices"][0]["token_ids"] != plain["choices"][0]["token_ids"]
    assert drafts > 0, "nothing was drafted, so nothing was compared"
    assert differ > 0, "another seed draws the same, so the comparison could not fail"


def test_a_client_that_leaves_is_noticed_behind_the_gateway(fleet):
    gateway, engines = fleet
    connection, response = gateway.stream("Count as far as you can.", **LASTING)
    wait(lambda: sum(engine.running() for engine in engines) == 1, "one engine writes the reply")
    busy = next(engine for engine in engines if engine.running() == 1)
    response.close()
    connection.close()
    wait(lambda: busy.running() == 0, "the engine stopped writing")


def test_a_full_engine_is_not_the_end_of_a_request(fleet):
    gateway, engines = fleet
    full, other = affine(gateway, engines, "full ")
    refused = gateway.upstream(429)
    held = [full.stream("Count as far as you can.", **LASTING)[0]]
    waits = full.connection()
    full.ask(waits, "Count on.", {"stream": True, **LASTING})
    held.append(waits)
    wait(lambda: full.waiting() == 1, "the queue is full")
    direct = full.chat("Is there a place?")
    assert direct.status == 429 and int(direct.headers["retry-after"]) >= 1
    answer = gateway.chat(f"full {BEGINNING} Is there a place?")
    assert (answer.status, answer.headers[ROUTED]) == (200, other.url)
    assert gateway.upstream(429) > refused, "the full engine was asked first"
    for connection in held:
        connection.close()
    wait(lambda: full.running() + full.waiting() == 0, "the places are free again")


def test_a_wrong_request_is_refused_once_and_not_tried_elsewhere(fleet):
    gateway, engines = fleet
    before = gateway.upstream(400)
    answer = gateway.chat("word " * 9000)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert gateway.upstream(400) == before + 1
    assert all(engine.is_listening() for engine in engines)


def test_the_gauges_of_the_inference_extension_are_there(fleet):
    _, engines = fleet
    engine = engines[0]
    text = engine.get("/metrics").text
    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"]:
        assert f"# TYPE vllm:{name} gauge" in text
    connection, response = engine.stream("Count as far as you can.", **LASTING)
    wait(lambda: engine.running() == 1, "the engine writes the reply")
    assert 0 < engine.gauge("vllm:kv_cache_usage_perc") <= 1
    response.close()
    connection.close()
    wait(lambda: engine.running() == 0, "the engine stopped writing")


def test_engines_stop_come_back_and_are_killed(fleet, start):
    gateway, engines = fleet
    first, second = affine(gateway, engines, "rolling ")
    tokens = tokens_in(4, first)

    # One is asked to stop while it writes: the reply becomes whole, and new requests go to the other.
    connection, response = gateway.stream(f"rolling {BEGINNING}", max_tokens=tokens, ignore_eos=True)
    wait(lambda: first.running() == 1, "the engine writes the reply")
    first.signal(signal.SIGTERM)
    wait(lambda: not first.is_listening(), "the engine drains")
    assert gateway.chat(f"rolling {BEGINNING} Next?").headers[ROUTED] == second.url
    assert response.read().rstrip().endswith(b"data: [DONE]")
    connection.close()
    assert first.end() == 0

    # It comes back on its port, and the gateway takes it in again.
    again = start(first.port)
    wait(lambda: again.url in gateway.ready(), "the gateway knows the engine again")

    # The other is killed while it writes: what it wrote is lost, and every later request is answered.
    connection, response = gateway.stream(f"rolling {BEGINNING}", **LASTING)
    wait(lambda: again.running() + second.running() == 1, "one engine writes the reply")
    killed, left = (again, second) if again.running() == 1 else (second, again)
    killed.signal(signal.SIGKILL)
    killed.end()
    for turn in range(3):
        answer = gateway.chat(f"rolling {BEGINNING} Turn {turn}?")
        assert (answer.status, answer.headers[ROUTED]) == (200, left.url)
    connection.close()
