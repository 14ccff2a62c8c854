//! Server-sent events: parses the data of each event from pieces of a stream, and tracks where to resume the stream.

use std::time::Duration;

/// Default delay before a stream is requested again.
const RETRY: Duration = Duration::from_secs(1);
/// Minimum delay; the maximum follows. The server's value is limited to this range.
const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_mins(1);
/// Maximum bytes of an id.
const ID: usize = 1 << 10;

/// Parser of a stream.
pub(super) struct Events {
    /// An incomplete line.
    line: Vec<u8>,
    /// The data of an incomplete event.
    data: Vec<u8>,
    most: usize,
    /// The last id that was received.
    id: Option<String>,
    retry: Duration,
}

impl Events {
    /// A parser for events of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            most,
            id: None,
            retry: RETRY,
        }
    }

    /// The stream has ended: discards an incomplete event. Returns the id of the event after which to resume, if
    /// possible, and the delay before that.
    pub(super) fn ended(&mut self) -> Option<(&str, Duration)> {
        self.line.clear();
        self.data.clear();
        Some((self.id.as_deref()?, self.retry))
    }

    /// The data of the events that `piece` completes; `None` if one is too long.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Option<Vec<Vec<u8>>> {
        let mut complete = Vec::new();
        let mut rest = piece;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (begin, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            self.keep(begin)?;
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                if !self.data.is_empty() {
                    complete.push(std::mem::take(&mut self.data));
                }
            } else {
                self.field(line);
            }
        }
        self.keep(rest)?;
        Some(complete)
    }

    fn field(&mut self, line: &[u8]) {
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let name = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || std::str::from_utf8(value).ok();
        match name {
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"id" if value.len() <= ID => self.id = text().map(str::to_owned),
            b"retry" => {
                if let Some(millis) = text().and_then(|text| text.parse().ok()) {
                    self.retry = Duration::from_millis(millis).clamp(SOONEST, LATEST);
                }
            }
            _ => {}
        }
    }

    fn keep(&mut self, piece: &[u8]) -> Option<()> {
        if self.line.len() + self.data.len() + piece.len() > self.most {
            return None;
        }
        self.line.extend_from_slice(piece);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(pieces: &[&str]) -> Vec<String> {
        let mut events = Events::new(64);
        pieces
            .iter()
            .flat_map(|piece| events.feed(piece.as_bytes()).unwrap())
            .map(|data| String::from_utf8(data).unwrap())
            .collect()
    }

    #[test]
    fn data_comes_in_any_pieces() {
        let stream = ": hi\nevent: message\nid: 1\ndata: {\"a\":\ndata:1}\n\nretry: 5\r\ndata: b\r\n\r\n\ndata: cut";
        let expected = ["{\"a\":\n1}", "b"];
        assert_eq!(fed(&[stream]), expected);
        let letters: Vec<&str> = stream.split_inclusive(|_| true).collect();
        assert_eq!(fed(&letters), expected);
    }

    #[test]
    fn a_stream_with_ids_can_go_on() {
        let mut events = Events::new(64);
        assert_eq!(events.feed(b"data: a\n\n"), Some(vec![b"a".to_vec()]));
        assert_eq!(events.ended(), None);
        assert_eq!(
            events.feed(b"id: 7\nretry: 500\ndata: \n\ndata: cu"),
            Some(vec![])
        );
        assert_eq!(events.ended(), Some(("7", Duration::from_millis(500))));
        assert_eq!(
            events.feed(b"retry: 0\nid\ndata: b\n\n"),
            Some(vec![b"b".to_vec()])
        );
        assert_eq!(events.ended(), Some(("", SOONEST)));
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        let mut events = Events::new(64);
        assert!(events.feed(&[b'x'; 64]).is_some());
        assert!(events.feed(b"x").is_none());
        let mut events = Events::new(64);
        let line = b"data: 123456789012345678901234\n";
        assert!(events.feed(line).is_some());
        assert!(events.feed(line).is_some());
        assert!(events.feed(line).is_none());
    }
}
