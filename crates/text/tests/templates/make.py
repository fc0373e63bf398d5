"""Writes cases.json: small templates with what Jinja2, set up as transformers sets it up, renders from them.

Run on demand (`python3 make.py`, needs jinja2 3.1); the result is committed, and the tests need no Python.
"""

import datetime
import json
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 5, 4, tzinfo=datetime.timezone.utc)


class Generation(jinja2.ext.Extension):
    """Renders a generation block as its content."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"z": {"type": "string"}, "a": {"enum": ["é", "<b>&'", 1, 1.5, True, None]}}}}
USER = {"role": "user", "content": "Hi 日本"}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {
    "s": "it's", "n": 3, "x": 1e-7, "big": 1e16, "t": True, "none": None, "list": ["a", "b's", 1, 2.0, False, None, {"k": []}], "obj": {"b": 1, "a": "<"}}}}]}
THOUGHT = {"role": "assistant", "content": "<think>long\nthought</think>\n\n The answer. "}

# name, template, messages, tools, extra
CASES = [
    ("tools as JSON", "{{ tools | tojson }}", [USER], [TOOL], {}),
    ("tools indented", "{{ tools | tojson(indent=2) }}", [USER], [TOOL, {}, []], {}),
    ("tools as ASCII", "{{ messages | tojson(ensure_ascii=True) }}", [{"role": "user", "content": "🙂é\u007f\u0001\n\t\"\\/"}], None, {}),
    ("control characters", "{{ messages | tojson }}", [{"role": "user", "content": "🙂é\u007f\u0001\b\f\n\r\t\"\\/\u2028"}], None, {}),
    ("separators and sorted keys", "{{ tools | tojson(separators=(',', ':'), sort_keys=True) }}", [USER], [TOOL], {}),
    ("numbers as JSON", "{{ x | tojson }}", [USER], None, {"x": [0, -1, 1.0, 1e16, 123456789.125, 1e-5, 1e22, 0.1, 18446744073709551615, -9223372036854775808]}),
    ("no tools is none", "{{ tools is none }} {{ tools is defined }} {{ tools }}", [USER], None, {}),
    ("literals print as in Python", "{{ true }} {{ false }} {{ none }} {{ 1.0 }} {{ [1, 'a', none] }} {{ {'b': 1, 'a': true} }} {{ (1,) }}", [USER], None, {}),
    ("string filter", "{% for k, v in messages[0].tool_calls[0].function.arguments.items() %}{{ k }}={{ v | string }};{% endfor %}", [CALL], None, {}),
    ("values joined and appended", "{{ ['a', 1, true, none] | join('-') }} {{ 'x' ~ true ~ none ~ 1.5 }}", [USER], None, {}),
    ("undefined is empty and false", "[{{ nothing }}{{ messages[0].nothing }}{{ messages[0]['nothing'] }}]{{ 1 if messages[0].nothing else 2 }}{{ nothing is defined }}", [USER], None, {}),
    ("tests on a text", "{% set x = 'a' %}{{ x is string }} {{ x is mapping }} {{ x is iterable }} {{ x is sequence }} {{ x is number }} {{ x is boolean }}", [USER], None, {}),
    ("tests on a list", "{% set x = [1] %}{{ x is string }} {{ x is mapping }} {{ x is iterable }} {{ x is sequence }}", [USER], None, {}),
    ("tests on a mapping", "{% set x = {'a': 1} %}{{ x is string }} {{ x is mapping }} {{ x is iterable }} {{ x is sequence }}", [USER], None, {}),
    ("tests on none", "{% set x = none %}{{ x is string }} {{ x is mapping }} {{ x is iterable }} {{ x is sequence }} {{ x is none }}", [USER], None, {}),
    ("tests on numbers", "{{ 1 is number }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is number }} {{ true is integer }} {{ true is boolean }} {{ 1 is iterable }}", [USER], None, {}),
    ("tests on undefined", "{{ nothing is string }} {{ nothing is mapping }} {{ nothing is iterable }} {{ nothing is sequence }} {{ nothing is none }}", [USER], None, {}),
    ("text methods", "{{ ' a b '.strip() }}|{{ 'a</think>b'.split('</think>')[-1] }}|{{ 'xax'.strip('x') }}|{{ 'abc'.startswith('ab') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'a,b,c'.split(',', 1) }}|{{ ' x\n'.rstrip() }}|{{ '\n\nx'.lstrip('\n') }}|{{ 'aXbX'.replace('X', '-') }}|{{ 'ab'.upper() }}|{{ 'a b  c'.split() }}", [USER], None, {}),
    ("more text methods", "{{ 'a.b.c'.rsplit('.', 1) }}|{{ 'a.b'.partition('.') }}|{{ 'ab'.partition('.') }}|{{ 'a.b.c'.rpartition('.') }}|{{ 'ab'.rpartition('.') }}|{{ 'abc'.removeprefix('a') }}|{{ 'abc'.removesuffix('c') }}|{{ 'abc'.find('c') }}|{{ ', '.join(['a', 'b']) }}|{{ 'Title case'.title() }}|{{ 'a'.isdigit() }}", [USER], None, {}),
    ("mapping methods", "{% set d = {'b': 1, 'a': 2} %}{{ d.get('b') }} {{ d.get('c') }} {{ d.get('c', 3) }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }} {{ d | length }}{% for k in d %} {{ k }}{% endfor %}", [USER], None, {}),
    ("filters", "{{ ' a ' | trim }}|{{ [3,1,2] | first }}|{{ [3,1,2] | last }}|{{ nothing | default('d') }}|{{ 'abc' | length }}|{{ [1,2] | list }}|{{ ['a','b'] | map('upper') | join(',') }}|{{ messages | selectattr('role', 'equalto', 'user') | list | length }}|{{ 'a' | upper }}|{{ {'a': 1} | items | list }}|{{ '3' | int + 1 }}|{{ messages | rejectattr('role', 'in', ['user']) | list }}", [USER], None, {}),
    ("whitespace control", "  {% if true %}\n  a\n  {%- endif %}\n\n{{- 'b' -}}\n  {# note #}\n  {% for x in [1, 2] %}\n  {{ x }}\n  {% endfor %}\nend\n", [USER], None, {}),
    ("namespace", "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% if m.role == 'user' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.n }}", [USER, USER], None, {}),
    ("loop variables", "{% for x in ['a', 'b', 'c'] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}", [USER], None, {}),
    ("loop controls", "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}", [USER], None, {}),
    ("slices", "{{ messages[1:] | length }} {{ messages[::-1][0].content }} {{ messages[-1].content }} {{ 'abcdef'[1:-1] }} {{ 'abc'[-1] }} {{ [1,2,3][:2] }}", [USER, {"role": "user", "content": "last"}], None, {}),
    ("macros", "{% macro show(m, upper=false) %}<{{ m.content | upper if upper else m.content }}>{% endmacro %}{{ show(messages[0]) }}{{ show(messages[0], upper=true) }}", [USER], None, {}),
    ("generation blocks", "{% for m in messages %}\n{% generation %}\n{{ m.content }}\n{%- endgeneration -%}\n{% endfor %}.", [USER, USER], None, {}),
    ("set block", "{% set x %}a {{ messages[0].role }}{% endset %}[{{ x }}]", [USER], None, {}),
    ("arithmetic and comparison", "{{ 7 // 2 }} {{ 7 % 3 }} {{ 2 ** 3 }} {{ 7 / 2 }} {{ 4 / 2 }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ 'a' in 'cat' }} {{ 'a' not in ['b'] }} {{ not none }} {{ 'a' * 3 }}", [USER], None, {}),
    ("or and and give values", "{{ '' or 'b' }} {{ 'a' and 'b' }} {{ none or [] }} {{ 0 or 'z' }}", [USER], None, {}),
    ("the date", "{{ strftime_now('%Y-%m-%d %d %B %Y %b %A') }}", [USER], None, {}),
    ("special tokens", "{{ bos_token }}{{ eos_token }}{{ pad_token }}", [USER], None, {}),
    ("add_generation_prompt", "{{ add_generation_prompt }}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}", [USER], None, {}),
    ("extra variables", "{{ enable_thinking }} {{ level }} {{ enable_thinking is defined and enable_thinking is false }}", [USER], None, {"enable_thinking": False, "level": "low"}),
    ("thoughts are cut", "{% for m in messages %}{% set c = m.content %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1] | trim %}{% endif %}{{ c }}{% endfor %}", [USER, THOUGHT], None, {}),
    ("a refusal", "{% if messages[0].role != 'system' %}{{ raise_exception('Begin with a ' + 'system message, not ' ~ messages[0].role) }}{% endif %}", [USER], None, {}),
    ("marked lists and responses", """{{ bos_token }}
{%- set first = messages[0] %}
{%- set intro = namespace(text=first.content if first.role == "system" else "") %}
{%- if tools %}
    {%- set names = namespace(list=[]) %}
    {%- for tool in tools %}
        {%- set names.list = names.list + [tool if tool is string else tool | tojson] %}
    {%- endfor %}
    {%- set intro.text = intro.text ~ "\nTools: <|tool_list_start|>[" ~ names.list | join(", ") ~ "]<|tool_list_end|>" %}
{%- endif %}
<|im_start|>system
{{ intro.text }}<|im_end|>
{% for m in messages if m.role != "system" %}
<|im_start|>{{ m.role }}
{% set body = m.content if m.content is string else m.content | tojson %}
{{ "<|tool_response_start|>" ~ body ~ "<|tool_response_end|>" if m.role == "tool" else body }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
""", [{"role": "system", "content": "Be kind."}, USER, {"role": "assistant", "content": "x"}, {"role": "tool", "content": {"b": 1, "a": [2.0]}}], [TOOL, "plain"], {}),
]


def main():
    env = environment()
    special = {"bos_token": "<|startoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
    cases = []
    for name, template, messages, tools, extra in CASES:
        case = {"name": name, "template": template, "messages": messages, "tools": tools, "extra": extra}
        try:
            case["text"] = env.from_string(template).render(
                **special, documents=None, **extra, messages=messages, tools=tools, add_generation_prompt=True
            )
        except jinja2.exceptions.TemplateError as error:
            case["refusal"] = str(error)
        cases.append(case)
    path = Path(__file__).with_name("cases.json")
    path.write_text(json.dumps(cases, ensure_ascii=False, indent=1) + "\n")


main()
