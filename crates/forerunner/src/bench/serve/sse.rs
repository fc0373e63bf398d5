//! Server-sent events out of bytes that come in pieces.

/// Takes bytes as they come and gives events' data, each when it is whole.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Of a line that is not whole.
    line: Vec<u8>,
    /// Of an event that is not whole.
    data: Option<String>,
}

impl Events {
    /// The data of the events that these bytes complete. Comments and other fields are passed over.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            events.extend(self.take_line(line.strip_suffix('\r').unwrap_or(&line)));
        }
        events
    }

    fn take_line(&mut self, line: &str) -> Option<String> {
        if line.is_empty() {
            return self.data.take();
        }
        let more = line.strip_prefix("data:")?;
        let more = more.strip_prefix(' ').unwrap_or(more);
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(more);
            }
            None => self.data = Some(more.to_owned()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let whole = Events::default().push(text.as_bytes());
        assert_eq!(whole, expected, "{text:?}");
        let mut events = Events::default();
        let in_pieces: Vec<String> = text.as_bytes().iter().flat_map(|byte| events.push(&[*byte])).collect();
        assert_eq!(in_pieces, expected, "{text:?} byte by byte");
    }

    #[test]
    fn an_event_ends_with_an_empty_line() {
        check("data: {\"a\": 1}\n\ndata: [DONE]\n\n", &["{\"a\": 1}", "[DONE]"]);
        check("data: one\n\ndata: half", &["one"]);
        check("data: one\r\n\r\ndata:two\r\n\r\n", &["one", "two"]);
    }

    #[test]
    fn comments_and_other_fields_are_passed_over() {
        check(": keep-alive\n\nevent: x\nid: 4\ndata: one\n\n", &["one"]);
        check("\n\n\n", &[]);
    }

    #[test]
    fn lines_of_data_are_joined() {
        check("data: one\ndata:  two\n\n", &["one\n two"]);
        check("data: é日\n\n", &["é日"]);
    }
}
