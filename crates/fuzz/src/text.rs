//! What becomes text or comes out of it: tokenizers, chat templates, messages, tool calls.

use std::path::Path;
use std::sync::OnceLock;

use forerunner_text::{
    ChatTemplate, ReplyEvent, ReplyParser, ThoughtStart, Tokenizer, ToolCallParser, ToolEvent, parse_reply,
};
use serde_json::{Map, Value, json};

use crate::Target;
use crate::scratch::Scratch;

/// `tokenizer.json`: a text that it takes is given back.
pub(crate) const TOKENIZER: Target = Target {
    name: "tokenizer",
    run: |bytes| {
        let scratch = Scratch::new(&[("tokenizer.json", bytes)]);
        if let Ok(tokenizer) = Tokenizer::open(scratch.path())
            && let Ok(tokens) = tokenizer.encode_prompt("Ab <|end|> é\n")
        {
            let _ = tokenizer.decode(&tokens, false);
            let mut detokenizer = tokenizer.detokenizer();
            tokens.iter().for_each(|token| drop(detokenizer.push(*token)));
        }
    },
    seeds: || vec![tokenizer().into_bytes()],
    words: &["ByteLevel", "BPE", "Sequence", "Split", "merges", "vocab", "added_tokens", "special", "NFC"],
    runs: 800,
};

/// The language of chat templates, over two messages.
pub(crate) const TEMPLATE: Target = Target {
    name: "template",
    run: |bytes| {
        let scratch = Scratch::new(&[("chat_template.jinja", bytes)]);
        if let Ok(template) = ChatTemplate::open(scratch.path()) {
            let messages =
                [json!({"role": "system", "content": "Be kind."}), json!({"role": "user", "content": "Hi"})];
            let _ = template.render(&messages, Some(&tools()), true, &Map::new());
        }
    },
    seeds: || {
        vec![
            include_bytes!("../../../assets/demo/target/chat_template.jinja").to_vec(),
            b"{% for m in messages[::-1] %}{{ m.role | upper }}{{ m['content'][1:2] }}{% endfor %}".to_vec(),
            b"{% set ns = namespace(n=1) %}{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}{{ ns.n ** 2 }}".to_vec(),
            b"{{ strftime_now('%Y-%m-%d') }}{{ raise_exception('no') }}".to_vec(),
        ]
    },
    words: &[
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "|",
        "tojson",
        "strftime_now",
        "loop.index0",
        "split",
        "strip",
        "range(",
    ],
    runs: 800,
};

/// What clients send for a template: messages, tools and variables.
pub(crate) const MESSAGES: Target = Target {
    name: "messages",
    run: |bytes| {
        let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let extra = body["chat_template_kwargs"].as_object().cloned().unwrap_or_default();
        let _ = demo_template().render(&messages, body.get("tools"), true, &extra);
    },
    seeds: || {
        let call = json!({"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": [1, -2.5]}"}});
        let messages = json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "42"},
        ]);
        let kwargs = json!({"enable_thinking": true});
        vec![
            json!({"messages": messages, "tools": tools(), "chat_template_kwargs": kwargs})
                .to_string()
                .into_bytes(),
        ]
    },
    words: &["content", "role", "tool_calls", "arguments", "<|im_end|>", "<think>", "type", "text"],
    runs: 3000,
};

/// Replies with calls and thoughts: what is found does not depend on how the text is cut.
pub(crate) const TOOL_CALLS: Target = Target {
    name: "tool_calls",
    run: |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let whole = parse_reply(&text);
        assert_eq!(whole.calls.len(), joined(&text, 1).calls, "calls of {text:?}");
        for width in [2, 7] {
            assert_eq!(joined(&text, 1), joined(&text, width), "cut at {width}: {text:?}");
        }
        let mut parser = ReplyParser::with_tools(ThoughtStart::Closed);
        let mut events = parser.push(&text);
        events.extend(parser.finish());
        let is_text = |event: &ReplyEvent| matches!(event, ReplyEvent::Thought(text) if text.is_empty());
        assert!(!events.iter().any(is_text), "an empty thought in {text:?}");
    },
    seeds: || {
        const CALLS: [&str; 6] = [
            "<|tool_call_start|>[f(a='x', b=[1, -2.5, None], c={\"d\": True}), g.h()]<|tool_call_end|>",
            "So: <|tool_call_start|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|tool_call_end|> done",
            "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
            "<think>Hm.</think>Well<|tool_call_start|>[w(t='''a\nb''', p=\"C:\\\\\")]<|tool_call_end|>",
            "<|tool_call_start|>[f(a=(1, 2), b='\\u00e9\\x41')",
            "plain text with [brackets](and) <angles>",
        ];
        CALLS.iter().map(|call| call.as_bytes().to_vec()).collect()
    },
    words: &[
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "'''",
        "\"\"\"",
        "None",
        "f(",
        "=",
        "{\"name\":",
        "\"arguments\":",
        "\\N{",
        "\\U0001f642",
    ],
    runs: 6000,
};

/// A reply's content and calls, as its events join to.
#[derive(Debug, Default, PartialEq)]
struct Joined {
    content: String,
    /// Names and arguments, and whether they were broken off.
    arguments: Vec<(String, String, bool)>,
    /// Calls that are whole.
    calls: usize,
}

/// Pushes `width` characters at a time, and holds that the events are in order.
fn joined(text: &str, width: usize) -> Joined {
    let mut parser = ToolCallParser::new();
    let characters: Vec<char> = text.chars().collect();
    let mut events = Vec::new();
    for piece in characters.chunks(width) {
        events.extend(parser.push(&piece.iter().collect::<String>()));
    }
    events.extend(parser.finish());
    let mut joined = Joined::default();
    for event in events {
        match event {
            ToolEvent::Content(text) => joined.content += &text,
            ToolEvent::CallBegin { index, name } => {
                assert_eq!(index, joined.arguments.len(), "calls begin in order");
                joined.arguments.push((name, String::new(), false));
            }
            ToolEvent::ArgumentsDelta { index, fragment } => joined.arguments[index].1 += &fragment,
            ToolEvent::CallEnd { index } => {
                let arguments = &joined.arguments[index].1;
                let parsed: Value = serde_json::from_str(arguments).expect("arguments are JSON");
                assert!(parsed.is_object(), "{arguments}");
                joined.calls += 1;
            }
            ToolEvent::CallBroken { index, raw } => {
                joined.arguments[index].2 = true;
                joined.content += &raw;
            }
        }
    }
    joined
}

fn tools() -> Value {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    json!([{"type": "function", "function": {"name": "f", "description": "F.", "parameters": parameters}}])
}

fn demo_template() -> &'static ChatTemplate {
    static TEMPLATE: OnceLock<ChatTemplate> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo/target");
        ChatTemplate::open(&demo).expect("the demo model's template")
    })
}

/// A byte-level tokenizer of some letters, with one merge and one special token.
fn tokenizer() -> String {
    let letters = ["A", "b", "<", "|", "e", "n", "d", ">", "Ġ", "Ċ", "Ã", "©", "Ab"];
    let vocabulary: Map<String, Value> =
        letters.iter().enumerate().map(|(id, letter)| ((*letter).to_owned(), id.into())).collect();
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 13, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": level, "post_processor": null, "decoder": level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary, "merges": [["A", "b"]]},
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_right() {
        let scratch = Scratch::new(&[("tokenizer.json", tokenizer().as_bytes())]);
        let tokenizer = Tokenizer::open(scratch.path()).expect("the smallest tokenizer");
        let tokens = tokenizer.encode("Ab <|end|> é\n", false).unwrap();
        assert_eq!(tokens, [12, 8, 13, 8, 10, 11, 9]);
        assert_eq!(tokenizer.decode(&tokens, false), "Ab <|end|> é\n");
    }
}
