//! Server-sent events: the data of each, out of pieces of a stream.

/// Reads a stream. Fields other than `data` are left out.
pub(super) struct Events {
    /// A line that is not complete.
    line: Vec<u8>,
    /// The data of an event that is not complete.
    data: Vec<u8>,
    most: usize,
}

impl Events {
    /// Of events of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            line: Vec::new(),
            data: Vec::new(),
            most,
        }
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
            } else if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data
                    .extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
            }
        }
        self.keep(rest)?;
        Some(complete)
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
