//! The server name of a TLS connection: `server_name` of its first message (RFC 8446, section 4.1.2; RFC 6066, section
//! 3).
//!
//! Pure. The bytes are hostile: anything malformed is an error, never a guess.

/// How a connection begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hello {
    /// A ClientHello with this name, or with none.
    Tls(Option<String>),
    /// An incomplete ClientHello.
    Incomplete,
    /// It looks like a ClientHello but is invalid.
    Broken(&'static str),
    /// Something else.
    Other,
}

/// The largest message accepted as a ClientHello. Those with keys for post-quantum exchange have about 2 kB.
pub(super) const LARGEST: usize = 16 * 1024;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Most records for one message; it needs one.
const RECORDS: usize = 32;

/// Parses what a client has sent so far.
pub(super) fn read(bytes: &[u8]) -> Hello {
    match bytes.first() {
        None => return Hello::Incomplete,
        Some(&HANDSHAKE) => {}
        Some(_) => return Hello::Other,
    }
    match message(bytes) {
        Ok(Some(message)) => match server_name(&message) {
            Some(name) => name.map_or_else(Hello::Broken, Hello::Tls),
            None => Hello::Broken("a length in it is wrong"),
        },
        Ok(None) if bytes.len() > LARGEST => Hello::Broken("it is too long"),
        Ok(None) => Hello::Incomplete,
        Err(reason) => Hello::Broken(reason),
    }
}

/// The handshake message in one or more records; `None` if it is incomplete.
fn message(bytes: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    let mut rest = Reader(bytes);
    let mut message: Vec<u8> = Vec::new();
    for _ in 0..RECORDS {
        let Some(kind) = rest.byte() else {
            return Ok(None);
        };
        if kind != HANDSHAKE {
            return Err("another record stands within it");
        }
        match rest.byte() {
            None => return Ok(None),
            Some(3) => {}
            Some(_) => return Err("it is of no known version"),
        }
        let Some(fragment) = rest.byte().and_then(|_| rest.long()) else {
            return Ok(None);
        };
        if fragment.is_empty() {
            return Err("a record of it is empty");
        }
        message.extend_from_slice(fragment);
        if let [kind, high, middle, low, body @ ..] = &message[..] {
            if *kind != CLIENT_HELLO {
                return Err("it is no ClientHello");
            }
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            if length > LARGEST {
                return Err("it is too long");
            }
            if body.len() > length {
                return Err("more than one message is in it");
            }
            if body.len() == length {
                return Ok(Some(body.to_vec()));
            }
        }
    }
    Err("it is in too many pieces")
}

/// The name in a ClientHello; `None` if a length is wrong.
fn server_name(message: &[u8]) -> Option<Result<Option<String>, &'static str>> {
    let mut hello = Reader(message);
    hello.take(2 + 32)?;
    let _session = hello.short()?;
    let _ciphers = hello.long()?;
    let _compressions = hello.short()?;
    if hello.0.is_empty() {
        return Some(Ok(None));
    }
    let mut extensions = Reader(hello.long()?);
    if !hello.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let mut data = Reader(extensions.long()?);
        if kind != SERVER_NAME {
            continue;
        }
        if found.is_some() {
            return Some(Err("it has two names"));
        }
        let mut names = Reader(data.long()?);
        let kind = names.byte()?;
        let name = names.long()?;
        if kind != HOST_NAME || !names.0.is_empty() || !data.0.is_empty() {
            return Some(Err("it has two names"));
        }
        found = Some(name);
    }
    Some(match found.map(std::str::from_utf8) {
        None => Ok(None),
        Some(Ok(name)) if name.is_ascii() && !name.is_empty() => {
            Ok(Some(name.to_ascii_lowercase()))
        }
        Some(Ok(_) | Err(_)) => Err("its name is none"),
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// A field with a length of one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }

    /// A field with a length of two bytes.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The ClientHello of a real client.
    fn hello(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let name = name.to_owned().try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    fn named(name: &str) -> Hello {
        Hello::Tls(Some(name.to_owned()))
    }

    /// The same message in records of `size` bytes.
    fn in_pieces(bytes: &[u8], size: usize) -> Vec<u8> {
        let pieces = bytes[5..].chunks(size).map(|piece| {
            let length = u16::try_from(piece.len()).unwrap().to_be_bytes();
            [&[22, 3, 1][..], &length, piece].concat()
        });
        pieces.collect::<Vec<_>>().concat()
    }

    #[test]
    fn the_name_of_a_real_hello_is_found() {
        let bytes = hello("www.example.org");
        assert_eq!(read(&bytes), named("www.example.org"));
        assert_eq!(read(&hello("192.0.2.7")), Hello::Tls(None));
        assert_eq!(read(&in_pieces(&bytes, 20)), named("www.example.org"));
        assert_eq!(
            read(&in_pieces(&bytes, 2)),
            Hello::Broken("it is in too many pieces")
        );
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Hello::Incomplete, "{end}");
        }
    }

    #[test]
    fn what_is_no_hello_is_told_apart() {
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), Hello::Other);
        assert_eq!(read(b"SSH-2.0-x"), Hello::Other);
        assert_eq!(
            read(&[22, 2, 0, 0, 1, 1]),
            Hello::Broken("it is of no known version")
        );
        assert_eq!(
            read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]),
            Hello::Broken("it is no ClientHello")
        );
        assert_eq!(
            read(&[22, 3, 1, 0, 0]),
            Hello::Broken("a record of it is empty")
        );
        assert_eq!(
            read(&[22, 3, 1, 0, 4, 1, 0xff, 0, 0]),
            Hello::Broken("it is too long")
        );
        assert_eq!(
            read(&[22, 3, 1, 0, 4, 1, 0, 0, 0]),
            Hello::Broken("a length in it is wrong")
        );
        let with_more = [&hello("a.org")[..], &[22, 3, 1, 0, 1, 0]].concat();
        // The server judges what follows the message.
        assert_eq!(read(&with_more), named("a.org"));
    }

    #[test]
    fn two_names_are_none() {
        let bytes = hello("a.org");
        let list: &[u8] = b"\0\0\0\x0a\0\x08\0\0\x05a.org";
        let at = bytes.windows(list.len()).position(|it| it == list).unwrap();
        // A second name in the list.
        let mut two = bytes.clone();
        two.splice(
            at..at + list.len(),
            *b"\0\0\0\x12\0\x10\0\0\x05a.org\0\0\x05b.org",
        );
        grow(&mut two, 8);
        assert_eq!(read(&two), Hello::Broken("it has two names"));
        // A second list.
        let mut two = bytes;
        two.splice(at..at, *b"\0\0\0\x0a\0\x08\0\0\x05b.org");
        grow(&mut two, 14);
        assert_eq!(read(&two), Hello::Broken("it has two names"));
    }

    /// Increases the lengths around the extensions.
    fn grow(bytes: &mut [u8], by: u8) {
        let session = usize::from(bytes[43]);
        let ciphers_at = 44 + session;
        let ciphers = usize::from(u16::from_be_bytes([
            bytes[ciphers_at],
            bytes[ciphers_at + 1],
        ]));
        let extensions = ciphers_at + 2 + ciphers + 2;
        for at in [3, 7, extensions] {
            let grown = u16::from_be_bytes([bytes[at], bytes[at + 1]]) + u16::from(by);
            bytes[at..at + 2].copy_from_slice(&grown.to_be_bytes());
        }
    }

    #[test]
    fn hostile_bytes_are_survived() {
        let good = hello("www.example.org");
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=random() % 4 {
                let at = usize::try_from(random()).unwrap() % bytes.len();
                bytes[at] = random().to_le_bytes()[0];
            }
            bytes.truncate(usize::try_from(random()).unwrap() % (bytes.len() * 2) + 1);
            if let Hello::Tls(Some(name)) = read(&bytes) {
                assert!(name.is_ascii() && !name.is_empty());
            }
        }
    }
}
