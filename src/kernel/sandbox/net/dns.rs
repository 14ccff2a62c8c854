//! DNS lookups inside of a kernel's namespace: questions in, answers out (RFC 1035).
//!
//! Pure, and no question ever leaves the machine: an allowed name gets an address of ours, every other name does not
//! exist, so that names cannot carry data out.

use std::net::Ipv4Addr;

/// A DNS question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    id: u16,
    is_recursion_desired: bool,
    /// In lower case, without the trailing dot.
    pub(super) name: String,
    kind: u16,
    /// The question's bytes, to be repeated in the answer.
    raw: Vec<u8>,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has this address, and no other records.
    Address(Ipv4Addr),
    /// There is no such name.
    NoSuchName,
    /// There are more names than addresses.
    Failed,
}

/// The largest question; a name of 255 bytes fits without extensions.
pub(super) const LARGEST: usize = 1232;

const HEADER: usize = 12;
const A: u16 = 1;
const INTERNET: u16 = 1;
/// Seconds that an answer is valid. Our addresses stay as long as the namespace.
const TTL: u32 = 60;

/// Parses a question; `None` for anything else, which gets no answer.
pub(super) fn read(bytes: &[u8]) -> Option<Question> {
    let number = |at: usize| {
        let pair = bytes.get(at..at + 2)?;
        pair.try_into().ok().map(u16::from_be_bytes)
    };
    let flags = number(2)?;
    // A standard query with one question.
    if flags & 0xf800 != 0 || number(4)? != 1 {
        return None;
    }
    let mut at = HEADER;
    let mut labels: Vec<&str> = Vec::new();
    loop {
        // A greater length is a pointer, and there is nothing earlier to point to.
        let length = usize::from(*bytes.get(at)?);
        if length > 63 || at > HEADER + 255 {
            return None;
        }
        at += 1;
        if length == 0 {
            break;
        }
        let label = bytes.get(at..at + length)?;
        // A dot within a label would make it look like two.
        if label.contains(&b'.') {
            return None;
        }
        labels.push(std::str::from_utf8(label).ok()?);
        at += length;
    }
    let kind = number(at)?;
    if number(at + 2)? != INTERNET {
        return None;
    }
    Some(Question {
        id: number(0)?,
        is_recursion_desired: flags & 0x100 != 0,
        name: labels.join(".").to_ascii_lowercase(),
        kind,
        raw: bytes.get(HEADER..at + 4)?.to_vec(),
    })
}

impl Question {
    /// Encodes the answer.
    pub(super) fn answered(&self, answer: Answer) -> Vec<u8> {
        let (code, address): (u16, _) = match answer {
            Answer::Address(address) => (0, Some(address).filter(|_| self.kind == A)),
            Answer::NoSuchName => (3, None),
            Answer::Failed => (2, None),
        };
        // A response, with recursion available.
        let mut flags = 0x8080 | code;
        if self.is_recursion_desired {
            flags |= 0x100;
        }
        let counts = [1, u16::from(address.is_some()), 0, 0];
        let mut bytes: Vec<u8> = [self.id, flags]
            .into_iter()
            .chain(counts)
            .flat_map(u16::to_be_bytes)
            .collect();
        bytes.extend_from_slice(&self.raw);
        if let Some(address) = address {
            // A pointer to the name of the question.
            bytes.extend([0xc0, 12]);
            bytes.extend([A, INTERNET].into_iter().flat_map(u16::to_be_bytes));
            bytes.extend(TTL.to_be_bytes());
            bytes.extend([0, 4]);
            bytes.extend(address.octets());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = b"\x12\x34\x01\x20\0\x01\0\0\0\0\0\x01".to_vec();
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        // An EDNS option record, as glibc and dig send it.
        bytes.extend(b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
        bytes
    }

    #[test]
    fn a_question_is_answered() {
        let question = read(&query("WWW.Example.org", A)).unwrap();
        assert_eq!(question.name, "www.example.org");
        let answer = question.answered(Answer::Address(Ipv4Addr::new(127, 1, 0, 2)));
        let expected =
            b"\x12\x34\x81\x80\0\x01\0\x01\0\0\0\0\x03WWW\x07Example\x03org\0\0\x01\0\x01\
                         \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\x01\0\x02";
        assert_eq!(answer, expected);
        let none = question.answered(Answer::NoSuchName);
        assert_eq!(none[..12], *b"\x12\x34\x81\x83\0\x01\0\0\0\0\0\0");
        // No IPv6 addresses, and no service records.
        for kind in [28, 65, 16, 255] {
            let question = read(&query("example.org", kind)).unwrap();
            let answer = question.answered(Answer::Address(Ipv4Addr::LOCALHOST));
            assert_eq!(answer[2..12], *b"\x81\x80\0\x01\0\0\0\0\0\0");
        }
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        let good = query("example.org", A);
        for end in 0..good.len() - 11 {
            assert_eq!(read(&good[..end]), None, "{end}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            read(&bytes)
        };
        assert_eq!(changed(2, 0x81), None, "an answer");
        assert_eq!(changed(2, 0x29), None, "an update");
        assert_eq!(changed(5, 2), None, "two questions");
        assert_eq!(changed(12, 0xc0), None, "a pointer");
        assert_eq!(changed(14, b'.'), None, "a dot in a label");
        assert_eq!(changed(14, 0xff), None, "no text");
        let long = ["a"; 200].join(".");
        assert_eq!(read(&query(&long, A)), None);
    }

    #[test]
    fn hostile_bytes_are_survived() {
        let good = query("www.example.org", A);
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=random() % 6 {
                let at = usize::try_from(random()).unwrap() % bytes.len();
                bytes[at] = random().to_le_bytes()[0];
            }
            bytes.truncate(usize::try_from(random()).unwrap() % (bytes.len() * 2));
            if let Some(question) = read(&bytes) {
                let answer = question.answered(Answer::Address(Ipv4Addr::LOCALHOST));
                assert!(answer.len() <= 512, "{bytes:?}");
            }
        }
    }
}
