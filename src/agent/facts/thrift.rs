//! Thrift's compact protocol, as far as a Parquet footer uses it (Apache Thrift, "Compact protocol encoding").
//!
//! The bytes are hostile: each read has its bound, nothing is allocated by a length that they tell, and structures that are
//! nested too deep end the reading.

/// Structures within structures.
const DEPTH: usize = 24;

/// Types of fields.
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// The bytes end, or do not belong to this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad;

/// Reads bytes.
pub(super) struct Compact<'a> {
    rest: &'a [u8],
}

impl<'a> Compact<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn byte(&mut self) -> Result<u8, Bad> {
        let (&byte, rest) = self.rest.split_first().ok_or(Bad)?;
        self.rest = rest;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, Bad> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Bad)
    }

    /// A whole number.
    pub(super) fn int(&mut self) -> Result<i64, Bad> {
        let value = self.varint()?;
        let half = i64::try_from(value >> 1).map_err(|_| Bad)?;
        Ok(if value & 1 == 0 { half } else { -half - 1 })
    }

    /// Bytes.
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Bad> {
        let length = usize::try_from(self.varint()?).map_err(|_| Bad)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Bad)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The type of a list's items, and how many it says there are.
    pub(super) fn list(&mut self) -> Result<(u8, u64), Bad> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        Ok((head & 0x0f, length))
    }

    /// A structure: `take` is told number and type of each field, and says whether it has read it.
    pub(super) fn fields(
        &mut self,
        mut take: impl FnMut(&mut Self, i64, u8) -> Result<bool, Bad>,
    ) -> Result<(), Bad> {
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            let kind = head & 0x0f;
            if kind == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.int()?,
                delta => id.saturating_add(i64::from(delta)),
            };
            if !take(self, id, kind)? {
                self.skip(kind, DEPTH)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), Bad> {
        let depth = depth.checked_sub(1).ok_or(Bad)?;
        match kind {
            // Truth values are in the type.
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => {
                let (_, rest) = self.rest.split_at_checked(8).ok_or(Bad)?;
                self.rest = rest;
            }
            BINARY => drop(self.binary()?),
            LIST | 10 => {
                let (kind, length) = self.list()?;
                for _ in 0..length {
                    self.skip_item(kind, depth)?;
                }
            }
            11 => {
                let length = self.varint()?;
                if length > 0 {
                    let kinds = self.byte()?;
                    for _ in 0..length {
                        self.skip_item(kinds >> 4, depth)?;
                        self.skip_item(kinds & 0x0f, depth)?;
                    }
                }
            }
            STRUCT => loop {
                let head = self.byte()?;
                let kind = head & 0x0f;
                if kind == 0 {
                    break;
                }
                if head >> 4 == 0 {
                    self.int()?;
                }
                self.skip(kind, depth)?;
            },
            _ => return Err(Bad),
        }
        Ok(())
    }
    /// In lists and maps a truth value is a byte: no item is without bytes, so no length is endless.
    fn skip_item(&mut self, kind: u8, depth: usize) -> Result<(), Bad> {
        match kind {
            1 | 2 => self.byte().map(drop),
            kind => self.skip(kind, depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_read_without_end() {
        let mut maps = vec![
            0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x11,
        ];
        maps.extend([0; 40]);
        for bytes in [
            maps.as_slice(),
            &[0x1c; 400],
            &[0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x0f, 1],
            &[0x18, 0xff, 0xff, 0x7f],
            &[0x15, 0xff],
            &[],
        ] {
            let read = Compact::new(bytes).fields(|_, _, _| Ok(false));
            assert_eq!(read, Err(Bad), "{bytes:?}");
        }
        assert_eq!(Compact::new(&[0x01]).int(), Ok(-1));
        assert_eq!(
            Compact::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).int(),
            Ok(i64::MIN)
        );
    }
}
