"""A conversation through the official anthropic package."""

import anthropic
import pytest

from conftest import KEY
from test_openai import ANSWER, ORDER, QUESTION, is_order, user

# The package has no argument for the temperature.
GREEDY = {"model": "demo", "max_tokens": 200, "extra_body": {"temperature": 0}}


@pytest.fixture
def client(url):
    return anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0)


def test_a_message_is_the_same_whole_and_streamed(client):
    whole = client.messages.create(messages=[user(QUESTION)], **GREEDY)
    assert [block.type for block in whole.content] == ["text"]
    assert (whole.content[0].text, whole.stop_reason) == (ANSWER, "end_turn")
    with client.messages.stream(messages=[user(QUESTION)], **GREEDY) as stream:
        assert "".join(stream.text_stream) == ANSWER
        final = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", whole.usage.output_tokens)
    events = list(client.messages.create(messages=[user(QUESTION)], stream=True, **GREEDY))
    assert (events[0].type, events[-1].type) == ("message_start", "message_stop")


def test_tokens_are_counted_as_they_are_used(client):
    messages = [user(QUESTION)]
    counted = client.messages.count_tokens(model="demo", messages=messages, system="Be brief.")
    used = client.messages.create(messages=messages, system="Be brief.", **GREEDY).usage
    assert counted.input_tokens == used.input_tokens + used.cache_read_input_tokens


def test_a_tool_loop_goes_round(client, prompts):
    prompt = prompts["demo-4"]
    tools = [
        {"name": tool["function"]["name"], "description": tool["function"]["description"],
         "input_schema": tool["function"]["parameters"]}
        for tool in prompt["tools"]
    ]
    first = client.messages.create(messages=prompt["messages"], tools=tools, **GREEDY)
    call = first.content[-1]
    assert first.stop_reason == "tool_use"
    assert (call.type, call.name, call.input) == ("tool_use", "multiply", {"a": 83, "b": 84})
    with client.messages.stream(messages=prompt["messages"], tools=tools, **GREEDY) as stream:
        streamed = stream.get_final_message().content[-1]
    assert (streamed.name, streamed.input) == (call.name, call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "6972"}
    messages = [
        *prompt["messages"],
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = client.messages.create(messages=messages, tools=tools, **GREEDY)
    assert second.stop_reason == "end_turn"
    assert "6972" in second.content[0].text


def test_tools_are_called_as_the_choice_says(client, prompts):
    prompt = prompts["demo-4"]
    tools = [
        {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
        for tool in prompt["tools"]
    ]

    def calls(choice):
        choice = {**choice, "disable_parallel_tool_use": True} if choice["type"] != "none" else choice
        message = client.messages.create(messages=prompt["messages"], tools=tools, tool_choice=choice, **GREEDY)
        return [block.name for block in message.content if block.type == "tool_use"]

    assert calls({"type": "none"}) == []
    assert calls({"type": "auto"}) == calls({"type": "any"}) == ["multiply"]
    assert calls({"type": "tool", "name": "read_file"}) == ["read_file"]


def test_a_schema_is_followed_with_drafts_and_without(client):
    config = {"format": {"type": "json_schema", "schema": ORDER}}

    def ask(draft):
        body = {"temperature": 0, "draft": draft}
        message = client.messages.create(
            messages=[user("Order something.")], output_config=config, **{**GREEDY, "extra_body": body}
        )
        return message.content[0].text

    assert is_order(ask(True)) and ask(True) == ask(False)


def test_drafts_and_seeds_do_not_change_the_text(client):
    """This API has no log-probabilities; its origins of tokens are told with drafts and without."""

    def ask(draft, seed):
        body = {"temperature": 0.9, "draft": draft, "seed": seed, "token_origins": True}
        message = client.messages.create(
            messages=[user("Tell me about a goat.")], **{**GREEDY, "max_tokens": 40, "extra_body": body}
        )
        return [entry["text"] for entry in message.model_extra["token_origins"]]

    assert ask(True, 5) == ask(False, 5)
    assert ask(True, 5) != ask(True, 6)


def test_limits_and_stop_sequences_end_a_message(client):
    cut = client.messages.create(messages=[user(QUESTION)], **{**GREEDY, "max_tokens": 3})
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 3)
    stopped = client.messages.create(messages=[user(QUESTION)], stop_sequences=[" There are"], **GREEDY)
    assert stopped.content[0].text == ANSWER.split(" There are")[0]


def test_refusals_are_the_packages_own_errors(client, url):
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0).messages.create(
            messages=[user("Hi")], **GREEDY
        )
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(messages=[user("word " * 4000)], **GREEDY)
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert "2048" in caught.value.body["error"]["message"]
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(messages=[user("Hi")], **{**GREEDY, "model": "claude"})
    for more, name in [
        ({"extra_body": {"n": 2}}, "n is 2"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.budget_tokens is 1024"),
        ({"tools": [], "tool_choice": {"type": "any"}}, "tool_choice"),
    ]:
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(messages=[user("Hi")], **{**GREEDY, **more})
        assert caught.value.body["error"]["message"].startswith(name)
    with pytest.raises(anthropic.BadRequestError, match="image"):
        image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}
        client.messages.create(messages=[{"role": "user", "content": [image]}], **GREEDY)
