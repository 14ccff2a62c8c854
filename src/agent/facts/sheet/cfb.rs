//! Files within a file, as Excel wrote them until 2003 ([MS-CFB]): finds one of them by its name.

use crate::agent::facts::input::Broken;

const BAD: &str = "its container is damaged";
/// Sectors that mean an end.
const LAST: u32 = 0xffff_fffa;

/// The bytes of the stream that has one of these names.
pub(super) fn stream(bytes: &[u8], names: &[&str]) -> Result<Vec<u8>, Broken> {
    let shift = u32::from(short(bytes, 30).ok_or(BAD)?);
    if !(7..=16).contains(&shift) {
        return Err(BAD.into());
    }
    let sector = 1_usize << shift;
    let at = |number: u32| {
        let number = usize::try_from(number).ok()?.checked_add(1)?;
        let start = number.checked_mul(sector)?;
        bytes.get(start..bytes.len().min(start.checked_add(sector)?))
    };
    // Where the parts of the table of sectors are: in the header, and in a chain behind it.
    let mut parts: Vec<u32> = (0..109).filter_map(|it| long(bytes, 76 + 4 * it)).collect();
    let mut next = long(bytes, 68).ok_or(BAD)?;
    let sectors = bytes.len() / sector + 1;
    while next < LAST && parts.len() <= sectors + 109 {
        let more = at(next).ok_or(BAD)?;
        parts.extend((0..sector / 4 - 1).filter_map(|it| long(more, 4 * it)));
        next = long(more, sector - 4).unwrap_or(LAST);
    }
    let mut table: Vec<u32> = Vec::new();
    for part in parts.into_iter().filter(|it| *it < LAST).take(sectors) {
        let part = at(part).ok_or(BAD)?;
        table.extend((0..sector / 4).filter_map(|it| long(part, 4 * it)));
    }
    let chain = |first: u32| {
        let mut all = Vec::new();
        let mut next = first;
        while next < LAST && all.len() <= bytes.len() {
            all.extend_from_slice(at(next).ok_or(BAD)?);
            next = usize::try_from(next)
                .ok()
                .and_then(|it| table.get(it))
                .copied()
                .unwrap_or(LAST);
        }
        Ok::<_, Broken>(all)
    };
    let directory = chain(long(bytes, 48).ok_or(BAD)?)?;
    let entry = |wanted: &[&str], kind: Option<u8>| {
        directory.chunks_exact(128).find(|entry| {
            let length = usize::from(short(entry, 64).unwrap_or(0))
                .saturating_sub(2)
                .min(62);
            let name: Vec<u16> = (0..length / 2)
                .filter_map(|it| short(entry, 2 * it))
                .collect();
            let name = String::from_utf16_lossy(&name);
            kind.map_or_else(
                || wanted.contains(&name.as_str()),
                |kind| entry.get(66) == Some(&kind),
            )
        })
    };
    let found = entry(names, None).ok_or("there is no workbook in it")?;
    let first = long(found, 116).ok_or(BAD)?;
    let size = usize::try_from(long(found, 120).ok_or(BAD)?).map_err(|_| BAD)?;
    let cutoff = usize::try_from(long(bytes, 56).ok_or(BAD)?).map_err(|_| BAD)?;
    if size >= cutoff {
        let mut stream = chain(first)?;
        stream.truncate(size);
        return Ok(stream);
    }
    // Small ones are in sectors of their own size, in the stream of the root.
    let root = entry(&[], Some(5)).ok_or(BAD)?;
    let holder = chain(long(root, 116).ok_or(BAD)?)?;
    let small = chain(long(bytes, 60).ok_or(BAD)?)?;
    let mut stream = Vec::new();
    let mut next = first;
    while next < LAST && stream.len() < size {
        let number = usize::try_from(next).map_err(|_| BAD)?;
        let start = number.checked_mul(64).ok_or(BAD)?;
        let end = holder.len().min(start + 64);
        stream.extend_from_slice(holder.get(start..end).ok_or(BAD)?);
        next = long(&small, number.saturating_mul(4)).unwrap_or(LAST);
    }
    stream.truncate(size);
    Ok(stream)
}

/// A little-endian number of two bytes.
pub(super) fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

/// A little-endian number of four bytes.
pub(super) fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}
