//! The values of string literals.

/// Resolves the escapes that Python, JavaScript, R and `$'..'` share; unknown ones stay.
pub(super) fn unescaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(escape) = rest.next() else { break };
        match escape {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            '\n' => {}
            'x' => out.extend(number(&mut rest, 2, 16)),
            'u' | 'U' => {
                let braced = rest.next_if_eq(&'{').is_some();
                let most = if escape == 'u' && !braced { 4 } else { 8 };
                out.extend(number(&mut rest, most, 16));
                if braced {
                    rest.next_if_eq(&'}');
                }
            }
            '0'..='7' => {
                let mut value = escape.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = rest.peek().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    value = value * 8 + digit;
                    rest.next();
                }
                out.extend(char::from_u32(value));
            }
            '\\' | '\'' | '"' | '`' | '/' | '$' => out.push(escape),
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out
}

fn number(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    most: usize,
    radix: u32,
) -> Option<char> {
    let mut value: u32 = 0;
    for _ in 0..most {
        let Some(digit) = rest.peek().and_then(|c| c.to_digit(radix)) else {
            break;
        };
        value = value.checked_mul(radix)?.checked_add(digit)?;
        rest.next();
    }
    char::from_u32(value)
}

/// Whether `identifier` looks like an ASCII one but is not: some languages treat both as the same name.
pub(super) fn is_disguised(identifier: &str) -> bool {
    identifier.chars().any(|c| {
        matches!(u32::from(c),
            0xAA | 0xBA | 0xB2..=0xB3 | 0xB9 | 0x17F | 0x2070..=0x209C | 0x2100..=0x214F | 0x2160..=0x217F
            | 0xFB00..=0xFB06 | 0xFF10..=0xFF5A | 0x1D400..=0x1D7FF | 0x1D2C..=0x1D6A | 0x2C7C..=0x2C7D)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_written_out() {
        for (raw, text) in [
            (r"a\x2fb", "a/b"),
            (r"\u002e\U0000002e", ".."),
            (r"\57tmp", "/tmp"),
            (r"\u{2e}x", ".x"),
            ("a\\\nb", "ab"),
            (r"\d+\.csv\", "\\d+\\.csv"),
            (r"C:\\x", "C:\\x"),
        ] {
            assert_eq!(unescaped(raw), text, "{raw}");
        }
        assert!(is_disguised("ｏｓ") && is_disguised("𝒐𝒔") && !is_disguised("größe"));
    }
}
