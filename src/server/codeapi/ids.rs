//! Translates ids: LibreChat accepts 21 characters of `A-Za-z0-9_-`, and the longer ids of containers and their files
//! are the same numbers in other digits.

const PREFIX: &str = "cntr_";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LENGTH: u32 = 21;
/// The bits of a random UUID (RFC 9562, version 4) before, between and after its version and variant.
const MIDDLE: u32 = 12;
const LOW: u32 = 62;
const VERSION: u128 = 4;
const VARIANT: u128 = 2;

/// LibreChat's id for a container.
pub(super) fn session_of(container: &str) -> String {
    let number = container
        .strip_prefix(PREFIX)
        .and_then(|digits| u128::from_str_radix(digits, 16).ok());
    let number = number.unwrap_or_default();
    let part = |from: u32, bits: u32| number >> from & ((1 << bits) - 1);
    let packed = part(80, 48) << (MIDDLE + LOW) | part(64, MIDDLE) << LOW | part(0, LOW);
    written(packed)
}

/// The container for LibreChat's id.
pub(super) fn container_of(session: &str) -> Option<String> {
    let packed = read(session)?;
    let part = |from: u32, bits: u32| packed >> from & ((1 << bits) - 1);
    let number = part(MIDDLE + LOW, 48) << 80
        | VERSION << 76
        | part(LOW, MIDDLE) << 64
        | VARIANT << LOW
        | part(0, LOW);
    (packed >> (48 + MIDDLE + LOW) == 0).then(|| format!("{PREFIX}{number:032x}"))
}

/// LibreChat's id for a file.
pub(super) fn file_of(file: &str) -> String {
    let digits = file.rsplit('_').next().unwrap_or_default();
    let number = u128::from_str_radix(digits, 16).unwrap_or_default();
    // 126 of its 128 bits fit.
    written(number >> 2)
}

fn written(number: u128) -> String {
    let digit = |at: u32| {
        let value = number >> (6 * at) & 63;
        let digit = usize::try_from(value).ok().and_then(|at| DIGITS.get(at));
        char::from(digit.copied().unwrap_or(b'A'))
    };
    (0..LENGTH).rev().map(digit).collect()
}

fn read(text: &str) -> Option<u128> {
    if text.len() != LENGTH as usize {
        return None;
    }
    text.bytes().try_fold(0, |number: u128, byte| {
        let digit = DIGITS.iter().position(|it| *it == byte)?;
        Some(number << 6 | u128::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back_to_their_containers() {
        for _ in 0..200 {
            let container = format!("cntr_{}", uuid::Uuid::new_v4().simple());
            let session = session_of(&container);
            assert_eq!(session.len(), 21, "{session}");
            assert_eq!(container_of(&session), Some(container));
        }
        for bad in [
            "",
            "..",
            "../../../../../etc/pas",
            "_____________________",
            "AAAAAAAAAAAAAAAAAAAA/",
            "AAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert_eq!(container_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn files_have_ids_of_the_same_length() {
        assert_eq!(
            file_of("cfile_ffffffffffffffffffffffffffffffff"),
            "_".repeat(21)
        );
        assert_ne!(
            file_of("cfile_1000000000000000000000000000000f"),
            file_of("cfile_2000000000000000000000000000000f")
        );
    }
}
