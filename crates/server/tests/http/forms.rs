//! Replies that are held to a form: the fake draws at random, so that only the masks make its replies what was asked for.

use serde_json::{Value, json};

use crate::client::{Answer, post};
use crate::world::{World, chat};

const CHAT: &str = "/v1/chat/completions";

fn answered(answer: Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

/// A schema whose texts are short, since the fake is in no hurry to end one.
fn order() -> Value {
    json!({"type": "object", "additionalProperties": false, "required": ["drink", "cups", "notes"],
        "properties": {"drink": {"enum": ["tea", "coffee"]}, "cups": {"type": "integer", "minimum": 1, "maximum": 12},
        "notes": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3}}})
}

#[track_caller]
fn is_order(text: &str) {
    let order: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(order["drink"] == "tea" || order["drink"] == "coffee", "{text}");
    assert!((1..=12).contains(&order["cups"].as_u64().unwrap()), "{text}");
    assert!((1..=3).contains(&order["notes"].as_array().unwrap().len()), "{text}");
}

fn schema(strict: bool) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "order", "schema": order(), "strict": strict}})
}

fn tools() -> Value {
    let function = |name: &str, strict: bool| {
        json!({"type": "function", "function": {"name": name, "strict": strict, "parameters": {"type": "object",
            "required": ["city"], "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"enum": [1, 2]}}}}})
    };
    json!([function("weather", true), function("tides", false)])
}

#[track_caller]
fn is_call(function: &Value, names: &[&str]) {
    assert!(names.iter().any(|name| function["name"] == *name), "{function}");
    let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    assert!(arguments["city"] == "Rome" || arguments["city"] == "Oslo", "{function}");
}

#[test]
fn a_schema_is_followed_drafted_or_plain_whole_or_streamed() {
    let world = World::new();
    for seed in 0..6 {
        for strict in [true, false] {
            let more =
                json!({"max_tokens": 120, "temperature": 1, "seed": seed, "response_format": schema(strict)});
            let ask = |more: Value| answered(post(world.address, CHAT, &chat("Order.", more)));
            let drafted = ask(more.clone());
            let choice = &drafted["choices"][0];
            is_order(choice["message"]["content"].as_str().unwrap());
            assert_eq!(choice["finish_reason"], "stop");
            let mut plain = more.clone();
            plain["draft"] = json!(false);
            assert_eq!(ask(plain)["choices"][0]["token_ids"], choice["token_ids"]);
            let mut streamed = more;
            streamed["stream"] = json!(true);
            let chunks = post(world.address, CHAT, &chat("Order.", streamed)).chunks();
            let text: String =
                chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
            assert_eq!(text, choice["message"]["content"].as_str().unwrap());
        }
    }
}

#[test]
fn every_choice_of_a_request_is_held_to_the_form() {
    let world = World::new();
    let more =
        json!({"max_tokens": 120, "temperature": 1, "seed": 3, "n": 4, "response_format": schema(true)});
    let reply = answered(post(world.address, CHAT, &chat("Order.", more)));
    let choices = reply["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 4);
    choices.iter().for_each(|choice| is_order(choice["message"]["content"].as_str().unwrap()));
}

#[test]
fn forced_tool_calls_are_calls_of_the_tools() {
    let world = World::new();
    let named = json!({"type": "function", "function": {"name": "tides"}});
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}});
    let cases = [
        (json!({"tool_choice": "required"}), &["weather", "tides"][..], 9),
        (json!({"tool_choice": "required", "parallel_tool_calls": false}), &["weather", "tides"], 1),
        (json!({"tool_choice": named, "parallel_tool_calls": false}), &["tides"], 1),
        (json!({"tool_choice": allowed, "parallel_tool_calls": false}), &["tides"], 1),
    ];
    for (more, names, most) in cases {
        for seed in 0..5 {
            let mut more = more.clone();
            more["tools"] = tools();
            more["seed"] = json!(seed);
            more["temperature"] = json!(1);
            more["max_tokens"] = json!(300);
            let reply = answered(post(world.address, CHAT, &chat("Weather?", more)));
            let choice = &reply["choices"][0];
            // The fake may go on calling for ever where nothing bounds the calls.
            if most > 1 && choice["finish_reason"] == "length" {
                continue;
            }
            assert_eq!(choice["finish_reason"], "tool_calls", "{choice}");
            let calls = choice["message"]["tool_calls"].as_array().unwrap();
            assert!((1..=most).contains(&calls.len()), "{choice}");
            calls.iter().for_each(|call| is_call(&call["function"], names));
        }
    }
}

#[test]
fn strict_tools_are_followed_when_the_model_calls_and_texts_stay_texts() {
    let world = World::scripted("I look. <|tool_call_start|>[weather(city='Paris')]<|tool_call_end|>");
    // The script insists on Paris; a model that draws under the mask could not.
    let free = answered(post(
        world.address,
        CHAT,
        &chat("Weather?", json!({"max_tokens": 60, "tools": [tools()[1]]})),
    ));
    assert_eq!(
        free["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"],
        "{\"city\":\"Paris\"}"
    );
    let held = post(world.address, CHAT, &chat("Weather?", json!({"max_tokens": 60, "tools": tools()})));
    let message = held.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("does not allow"), "{} {message}", held.status);
}

/// The script insists on its call; a model that draws under the mask could not where that tool is not allowed.
#[test]
fn a_model_that_may_call_some_of_its_tools_calls_no_other() {
    let world = World::scripted("I look.<|tool_call_start|>[tides(city='Rome')]<|tool_call_end|>");
    let ask = |name: &str| {
        let allowed =
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": name}]});
        let function = |name: &str| json!({"type": "function", "name": name, "parameters": {"properties": {"city": {"type": "string"}}}});
        let tools = [function("weather"), function("tides")];
        let body =
            json!({"input": "Tides?", "tools": tools, "tool_choice": allowed, "max_output_tokens": 60});
        let answer = post(world.address, "/v1/responses", &body).json();
        (answer["output"][1]["name"].clone(), answer["tool_choice"] == allowed, answer)
    };
    let (name, is_echoed, answer) = ask("tides");
    assert_eq!((&name, is_echoed), (&json!("tides"), true), "{answer}");
    let refused = ask("weather").2["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.contains("does not allow"), "{refused}");
}

#[test]
fn guided_fields_hold_a_reply() {
    let world = World::new();
    let text = |path: &str, body: Value| {
        let choice = answered(post(world.address, path, &body))["choices"][0].clone();
        choice["text"].as_str().or(choice["message"]["content"].as_str()).unwrap().to_owned()
    };
    let choices = json!(["yes", "no", "it depends"]);
    for body in [json!({"guided_choice": choices}), json!({"structured_outputs": {"choice": choices}})] {
        let reply = text(CHAT, chat("Well?", body));
        assert!(choices.as_array().unwrap().contains(&json!(reply)), "{reply}");
    }
    let regex = json!({"prompt": "When?", "structured_outputs": {"regex": "[0-2][0-9]:[0-5][0-9]"}});
    let reply = text("/v1/completions", regex);
    assert!(reply.len() == 5 && reply.as_bytes()[2] == b':', "{reply}");
    let lark = json!({"prompt": "x", "guided_grammar": "start: \"a\" (\"b\" | \"c\") \"d\""});
    assert!(["abd", "acd"].contains(&text("/v1/completions", lark).as_str()));
    let body = json!({"prompt": "Order.", "max_tokens": 120, "response_format": schema(true)});
    is_order(&text("/v1/completions", body));
}

#[test]
fn the_other_apis_have_their_own_words_for_it() {
    let world = World::new();
    let format =
        json!({"format": {"type": "json_schema", "name": "order", "schema": order(), "strict": true}});
    let body = json!({"input": "Order.", "text": format, "max_output_tokens": 120, "seed": 1});
    let response = answered(post(world.address, "/v1/responses", &body));
    is_order(response["output"][0]["content"][0]["text"].as_str().unwrap());
    assert_eq!(response["text"], format);
    let function = &tools()[0]["function"];
    let tool = json!({"type": "function", "name": "weather", "parameters": function["parameters"]});
    for choice in [json!("required"), json!({"type": "function", "name": "weather"})] {
        let body = json!({"input": "Weather?", "tools": [tool], "tool_choice": choice, "max_output_tokens": 400,
            "parallel_tool_calls": false, "seed": 2});
        let response = answered(post(world.address, "/v1/responses", &body));
        is_call(&response["output"][0], &["weather"]);
    }
    let tool = json!({"name": "weather", "input_schema": function["parameters"]});
    for choice in [
        json!({"type": "any"}),
        json!({"type": "tool", "name": "weather", "disable_parallel_tool_use": true}),
    ] {
        let body = json!({"max_tokens": 400, "tools": [tool], "tool_choice": choice, "seed": 3,
            "messages": [{"role": "user", "content": "Weather?"}]});
        let message = answered(post(world.address, "/v1/messages", &body));
        assert_eq!(message["stop_reason"], "tool_use", "{message}");
        let input = &message["content"][0]["input"];
        assert!(input["city"] == "Rome" || input["city"] == "Oslo", "{message}");
    }
    let body = json!({"max_tokens": 120, "messages": [{"role": "user", "content": "Order."}], "seed": 4,
        "output_config": {"format": {"type": "json_schema", "schema": order()}}});
    let message = answered(post(world.address, "/v1/messages", &body));
    is_order(message["content"][0]["text"].as_str().unwrap());
}

#[test]
fn a_form_that_cannot_be_followed_is_refused_before_a_stream_opens() {
    let world = World::new();
    let strict =
        |schema: Value| json!({"type": "json_schema", "json_schema": {"strict": true, "schema": schema}});
    let fields = [
        (json!({"response_format": strict(json!({"type": "strin"}))}), "response_format", "strin"),
        (json!({"response_format": strict(json!({"type": "object", "not": {}}))}), "response_format", "not"),
        (json!({"response_format": strict(json!({"$ref": "#/$defs/a"}))}), "response_format", "$defs"),
        (json!({"guided_regex": "a("}), "guided_regex", "regular expression"),
        (json!({"guided_choice": []}), "guided_choice", "no texts"),
        (json!({"tool_choice": "required"}), "tool_choice", "there are no tools"),
        (json!({"tool_choice": "sometimes", "tools": tools()}), "tool_choice", "accepted"),
        (
            json!({"tool_choice": {"type": "function", "function": {"name": "dance"}}, "tools": tools()}),
            "tool_choice",
            "dance",
        ),
        (
            json!({"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "a b"}}]}),
            "tool_choice",
            "a b",
        ),
    ];
    for (more, field, fragment) in fields {
        for stream in [false, true] {
            let mut body = chat("Hello", more.clone());
            body["stream"] = json!(stream);
            let answer = post(world.address, CHAT, &body);
            let error = answer.json()["error"].clone();
            assert_eq!((answer.status, &error["param"]), (400, &json!(field)), "{error}");
            assert!(error["message"].as_str().unwrap().contains(fragment), "{error}");
        }
    }
    let format = json!({"type": "json_schema", "name": "a", "schema": {"type": "strin"}, "strict": true});
    let message = json!([{"role": "user", "content": "a"}]);
    let bodies = [
        ("/v1/responses", json!({"input": "a", "text": {"format": format}}), "text.format"),
        ("/v1/responses", json!({"input": "a", "text": {"format": {"type": "xml"}}}), "text.format.type"),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "messages": message, "output_config": {"format": {"type": "json_schema"}}}),
            "output_config.format.schema",
        ),
    ];
    for (path, body, field) in bodies {
        let answer = post(world.address, path, &body);
        let error = answer.json()["error"].clone();
        assert_eq!(answer.status, 400, "{error}");
        let told = [&error["param"], &error["message"]].map(|told| told.as_str().unwrap_or_default());
        assert!(told.iter().any(|told| told.starts_with(field)), "{error}");
    }
    let loose =
        json!({"type": "json_schema", "json_schema": {"schema": {"enum": ["a"], "not": {"const": "b"}}}});
    let reply = answered(post(world.address, CHAT, &chat("Hello", json!({"response_format": loose}))));
    assert_eq!(reply["choices"][0]["message"]["content"], "\"a\"");
}

/// What shows only in the middle of a reply is the caller's fault all the same, and no other reply's.
#[test]
fn a_form_that_leads_nowhere_is_told_with_the_text_before_it() {
    let world = World::new();
    let dead = "start: \"so bad\" NOTHING\nNOTHING: /x/ & /y/\n";
    for draft in [true, false] {
        let mut body = chat("Hello", json!({"guided_grammar": dead, "draft": draft}));
        body["prompt"] = json!("Hello");
        body["input"] = json!("Hello");
        for path in [CHAT, "/v1/completions", "/v1/responses", "/v1/messages"] {
            body["stream"] = json!(false);
            let answer = post(world.address, path, &body);
            let error = answer.json()["error"].clone();
            assert_eq!((answer.status, &error["type"]), (400, &json!("invalid_request_error")), "{path}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("the Lark grammar leads nowhere after \"so bad\""), "{message}");
            body["stream"] = json!(true);
            let streamed = post(world.address, path, &body);
            let text = String::from_utf8(streamed.body).unwrap();
            assert_eq!(streamed.status, 200);
            assert!(text.contains("leads nowhere after") && !text.contains("server_error"), "{path}: {text}");
        }
        let code = post(world.address, CHAT, &body).chunks().last().unwrap()["error"]["code"].clone();
        assert_eq!(code, "form_dead_end");
    }
    assert_eq!(post(world.address, CHAT, &chat("Hello", json!({}))).status, 200);
}

/// A switch that does nothing is worse than none, BigMoeOnEdge#82: the demo model's template has no thoughts.
#[test]
fn what_a_template_cannot_be_told_about_thinking_is_refused() {
    let world = World::new();
    let cases = [
        (
            json!({"chat_template_kwargs": {"enable_thinking": false}}),
            Some("chat_template_kwargs.enable_thinking"),
        ),
        (json!({"chat_template_kwargs": {"colour": 1}}), Some("chat_template_kwargs.colour")),
        (json!({"chat_template_kwargs": {}}), None),
        (json!({"reasoning_effort": "high"}), Some("reasoning_effort")),
        (json!({"reasoning_effort": "none"}), None),
        (json!({"reasoning_effort": null}), None),
        (json!({"reasoning": {"effort": "low"}}), Some("reasoning.effort")),
        (json!({"enable_thinking": true}), Some("enable_thinking")),
        (json!({"enable_thinking": false}), None),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), Some("thinking.budget_tokens")),
        (json!({"thinking": {"type": "enabled"}}), Some("thinking")),
        (json!({"thinking": {"type": "disabled"}}), None),
        (json!({"thinking": {"type": "sometimes"}}), Some("thinking.type")),
    ];
    for (more, field) in cases {
        let answer = post(world.address, CHAT, &chat("Hello", more.clone()));
        let expected = if field.is_some() { 400 } else { 200 };
        assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (expected, field), "{more}");
    }
}

#[test]
fn a_message_names_the_stop_sequence_that_it_met() {
    let world = World::scripted("The quick brown fox");
    for (stop, reason, met) in [
        (json!(["dog", "own fox"]), "stop_sequence", json!("own fox")),
        (json!(["dog"]), "end_turn", Value::Null),
    ] {
        let mut body = json!({"max_tokens": 60, "stop_sequences": stop,
            "messages": [{"role": "user", "content": "Hello"}]});
        let message = answered(post(world.address, "/v1/messages", &body));
        assert_eq!((&message["stop_reason"], &message["stop_sequence"]), (&json!(reason), &met));
        body["stream"] = json!(true);
        let streamed = post(world.address, "/v1/messages", &body);
        let text = String::from_utf8(streamed.body).unwrap();
        assert!(text.contains(&format!("\"stop_reason\":\"{reason}\",\"stop_sequence\":{met}")), "{text}");
    }
}
