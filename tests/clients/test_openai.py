"""A conversation through the official openai package."""

import concurrent.futures
import json
from typing import Literal

import openai
import pydantic
import pytest

from conftest import KEY

QUESTION = "There are 7 boxes with 12 pears each. How many pears are there in all?"
ANSWER = "Each box has 12 pears. There are 7 boxes. 7 * 12 = 84. The answer is 84."
GREEDY = {"model": "demo", "temperature": 0}


ORDER = {
    "type": "object", "additionalProperties": False, "required": ["drink", "cups"],
    "properties": {"drink": {"enum": ["tea", "coffee"]}, "cups": {"type": "integer", "minimum": 1, "maximum": 9}},
}


class Order(pydantic.BaseModel):
    """An order that a model writes."""

    drink: Literal["tea", "coffee"]
    cups: int


def is_order(text):
    order = json.loads(text)
    return order["drink"] in ("tea", "coffee") and 1 <= order["cups"] <= 9 and len(order) == 2


@pytest.fixture
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)


def user(text):
    return {"role": "user", "content": text}


def test_models_are_listed(client):
    models = client.models.list().data
    assert [model.id for model in models] == ["demo"]
    assert models[0].owned_by == "forerunner"


def test_a_chat_reply_is_the_same_whole_and_streamed(client):
    whole = client.chat.completions.create(messages=[user(QUESTION)], **GREEDY)
    assert whole.choices[0].message.content == ANSWER
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert whole.model_extra["forerunner"]["rounds"] > 0
    stream = client.chat.completions.create(
        messages=[user(QUESTION)], stream=True, stream_options={"include_usage": True}, **GREEDY
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == ANSWER
    assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_the_stream_helper_puts_a_reply_together(client):
    with client.chat.completions.stream(messages=[user(QUESTION)], **GREEDY) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.content == ANSWER


def test_drafts_and_seeds_do_not_change_the_text(client):
    def ask(draft, seed):
        reply = client.chat.completions.create(
            model="demo", messages=[user("Tell me about a goat.")], temperature=0.9, seed=seed,
            max_completion_tokens=40, extra_body={"draft": draft, "return_token_ids": True},
        )
        return reply.choices[0].model_extra["token_ids"]

    assert ask(True, 5) == ask(False, 5)
    assert ask(True, 5) != ask(True, 6)


def test_a_tool_loop_goes_round(client, prompts):
    prompt = prompts["demo-4"]
    first = client.chat.completions.create(messages=prompt["messages"], tools=prompt["tools"], **GREEDY)
    assert first.choices[0].finish_reason == "tool_calls"
    call = first.choices[0].message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert (call.function.name, arguments) == ("multiply", {"a": 83, "b": 84})
    with client.chat.completions.stream(
        messages=prompt["messages"], tools=prompt["tools"], **GREEDY
    ) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls"
    assert streamed.message.tool_calls[0].function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": str(arguments["a"] * arguments["b"])}
    messages = [*prompt["messages"], first.choices[0].message, result]
    second = client.chat.completions.create(messages=messages, tools=prompt["tools"], **GREEDY)
    assert second.choices[0].finish_reason == "stop"
    assert "6972" in second.choices[0].message.content


def test_a_schema_is_followed_with_drafts_and_without(client):
    schema = {"type": "json_schema", "json_schema": {"name": "order", "schema": ORDER, "strict": True}}

    def ask(draft, **more):
        return client.chat.completions.create(
            messages=[user("Order something.")], response_format=schema, extra_body={"draft": draft}, **GREEDY, **more
        )

    drafted, plain = [ask(draft).choices[0].message.content for draft in (True, False)]
    assert is_order(drafted) and drafted == plain
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in ask(True, stream=True))
    assert streamed == drafted
    text = {"format": {"type": "json_schema", "name": "order", "schema": ORDER, "strict": True}}
    assert is_order(client.responses.create(input="Order something.", text=text, **GREEDY).output_text)
    loose = client.chat.completions.create(
        messages=[user("Order something.")], response_format={"type": "json_object"}, max_tokens=300, **GREEDY
    ).choices[0]
    assert loose.finish_reason == "length" or isinstance(json.loads(loose.message.content), dict)


def test_the_package_parses_what_its_own_schema_asked_for(client):
    chat = client.chat.completions.parse(messages=[user("Order something.")], response_format=Order, **GREEDY)
    assert isinstance(chat.choices[0].message.parsed, Order)
    response = client.responses.parse(input="Order something.", text_format=Order, **GREEDY)
    assert isinstance(response.output_parsed, Order)


def test_tools_are_called_as_the_choice_says(client, prompts):
    prompt = prompts["demo-4"]
    named = {"type": "function", "function": {"name": "read_file"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}

    def calls(choice):
        reply = client.chat.completions.create(
            messages=prompt["messages"], tools=prompt["tools"], tool_choice=choice, parallel_tool_calls=False,
            max_tokens=200, **GREEDY,
        )
        return [call.function.name for call in reply.choices[0].message.tool_calls or []]

    assert calls("none") == []
    assert calls("auto") == calls("required") == ["multiply"]
    assert calls(named) == calls(allowed) == ["read_file"]


def test_log_probabilities_are_the_same_with_drafts_and_without(client):
    def chat(draft):
        reply = client.chat.completions.create(
            messages=[user(QUESTION)], logprobs=True, top_logprobs=3, extra_body={"draft": draft}, **GREEDY
        )
        return reply.choices[0].logprobs.content

    def completion(draft):
        reply = client.completions.create(
            prompt="Once upon a time", logprobs=3, max_tokens=24, extra_body={"draft": draft}, **GREEDY
        )
        return reply.choices[0].logprobs

    def response(draft):
        reply = client.responses.create(
            input=QUESTION, include=["message.output_text.logprobs"], top_logprobs=3, extra_body={"draft": draft}, **GREEDY
        )
        return reply.output[0].content[0].logprobs

    for ask in (chat, completion, response):
        assert ask(True) == ask(False)
    entries = chat(True)
    assert "".join(entry.token for entry in entries) == ANSWER
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 3 for entry in entries)
    assert any(entry.logprob < 0 for entry in entries)


def test_several_choices_stop_strings_and_completions(client):
    reply = client.chat.completions.create(
        model="demo", messages=[user("Name a fruit.")], n=3, temperature=1, seed=3, max_tokens=12
    )
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    cut = client.chat.completions.create(messages=[user(QUESTION)], stop=[" There are"], **GREEDY)
    assert cut.choices[0].message.content == ANSWER.split(" There are")[0]
    completion = client.completions.create(prompt="Once upon a time", max_tokens=8, **GREEDY)
    pieces = client.completions.create(prompt="Once upon a time", max_tokens=8, stream=True, **GREEDY)
    assert "".join(piece.choices[0].text for piece in pieces) == completion.choices[0].text
    assert completion.choices[0].finish_reason == "length"


def test_responses_stream_and_go_on(client):
    first = client.responses.create(input=QUESTION, **GREEDY)
    assert (first.status, first.output_text) == ("completed", ANSWER)
    with client.responses.stream(input=QUESTION, **GREEDY) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == ANSWER
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    second = client.responses.create(input="How many boxes?", previous_response_id=first.id, **GREEDY)
    messages = [user(QUESTION), {"role": "assistant", "content": ANSWER}, user("How many boxes?")]
    whole = client.responses.create(input=messages, **GREEDY)
    assert (second.output_text, second.usage.input_tokens) == (whole.output_text, whole.usage.input_tokens)
    assert client.responses.retrieve(first.id).output_text == ANSWER
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(input="And?", previous_response_id=first.id, **GREEDY)


def test_responses_call_tools(client, prompts):
    prompt = prompts["demo-4"]
    tools = [{"type": "function", "strict": False, **tool["function"]} for tool in prompt["tools"]]
    first = client.responses.create(input=prompt["messages"], tools=tools, **GREEDY)
    call = first.output[-1]
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "multiply", {"a": 83, "b": 84})
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "6972"}
    second = client.responses.create(input=[output], previous_response_id=first.id, tools=tools, **GREEDY)
    assert "6972" in second.output_text


def test_a_wrong_key_is_an_authentication_error(url):
    stranger = openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as caught:
        stranger.models.list()
    assert (caught.value.code, caught.value.request_id[:4]) == ("invalid_api_key", "req-")


def test_a_prompt_over_the_window_is_told_before_the_stream(client):
    for stream in [False, True]:
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(messages=[user("word " * 4000)], stream=stream, **GREEDY)
        assert caught.value.code == "context_length_exceeded"
        assert "2048" in caught.value.message


def test_another_model_and_wrong_fields_are_named(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt", messages=[user("Hi")])
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="demo", messages=[user("Hi")], temperature=-1)
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", "temperature")


def test_what_cannot_be_done_is_refused_and_not_ignored(client):
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "strin"}, "strict": True}}
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(
                messages=[user("Hi")], response_format=schema, stream=stream, **GREEDY
            )
        assert caught.value.param == "response_format"
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(input="Hi", extra_body={"n": 2}, **GREEDY)
    assert caught.value.param == "n"
    dead = {"guided_grammar": 'start: "so bad" NOTHING\nNOTHING: /x/ & /y/'}
    with pytest.raises(openai.BadRequestError, match="leads nowhere after") as caught:
        client.chat.completions.create(messages=[user("Hi")], extra_body=dead, **GREEDY)
    assert caught.value.code == "form_dead_end"
    with pytest.raises(openai.APIError, match="leads nowhere after"):
        list(client.chat.completions.create(messages=[user("Hi")], extra_body=dead, stream=True, **GREEDY))


def test_a_full_queue_is_a_rate_limit_that_retries_get_past(serve):
    url = serve("--parallel", "1", "--max-queue", "1", "--context", "4096")
    impatient = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def ask(client, tokens):
        return client.completions.create(
            model="demo", prompt="Once", max_tokens=tokens, extra_body={"ignore_eos": True}
        ).usage.completion_tokens

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, impatient, 200) for _ in range(6)]
        failures = [future.exception() for future in asked]
    refused = [failure for failure in failures if failure]
    assert 1 <= len(refused) <= 5
    assert all(isinstance(failure, openai.RateLimitError) for failure in refused), refused
    assert all(failure.response.headers["retry-after"] == "1" for failure in refused)
    patient = impatient.with_options(max_retries=100)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, [patient] * 4, [40] * 4)) == [40] * 4
