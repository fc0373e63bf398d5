//! Reads streams whose events have names.

use serde_json::Value;

use crate::client::Answer;

/// The events of a stream, each of which has its name as its type.
pub(crate) fn events(answer: &Answer) -> Vec<Value> {
    let text = std::str::from_utf8(&answer.body).expect("UTF-8");
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
    let event = |frame: &str| {
        let (name, data) = frame.split_once("\ndata: ").expect("a name and data");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    frames.map(event).collect()
}
