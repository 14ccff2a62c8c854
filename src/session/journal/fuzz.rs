//! Fuzzes journals: an entry that was read reads the same after it is written again, and arbitrary edits leave a
//! transcript that its snapshot reproduces.
#![expect(
    clippy::unwrap_used,
    reason = "a property that does not hold is a panic"
)]

use super::{Entry, Read, begin, gather, read, summary, write};
use crate::session::limits::OutputLimits;
use crate::session::transcript::{Edit, Transcript};

/// If the first byte is odd, the rest is a journal; otherwise each line of the rest is an entry's JSON.
pub(crate) fn journal(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let bytes = if kind % 2 == 1 {
        rest.to_vec()
    } else {
        let lines = rest.split(|&byte| byte == b'\n');
        lines
            .flat_map(|line| {
                [
                    format!("{:08x} ", crc32fast::hash(line)).as_bytes(),
                    line,
                    b"\n",
                ]
                .concat()
            })
            .collect()
    };
    let (entries, told) = read_all(&bytes);
    assert!(told.good <= told.end && told.end == bytes.len() as u64);
    let mut written = Vec::new();
    for entry in &entries {
        write(entry, &mut written);
    }
    let (again, told) = read_all(&written);
    assert_eq!(
        (told.good, told.damaged, told.unknown),
        (written.len() as u64, 0, 0)
    );
    // The first write upgrades a notebook inside an edit to the newest version.
    let mut rewritten = Vec::new();
    for entry in &again {
        write(entry, &mut rewritten);
    }
    assert!(
        again.len() == entries.len() && rewritten == written,
        "written and read again: {:?} of {:?}",
        String::from_utf8_lossy(&rewritten),
        String::from_utf8_lossy(&written)
    );
    let _ = summary(&bytes);
    begin(&mut bytes.as_slice()).unwrap();
    gather(bytes.as_slice()).unwrap();
    replay(again);
}

fn replay(entries: Vec<Entry>) {
    let mut transcript = Transcript::new(limits());
    for entry in entries {
        if let Entry::Edit(edit) = entry {
            let before = transcript.clone();
            if transcript.apply(edit).is_err() {
                assert_eq!(
                    transcript, before,
                    "an edit that does not fit changes nothing"
                );
            }
        }
    }
    let edits: Vec<Edit> = transcript.snapshot().collect();
    let mut again = Transcript::new(limits());
    for edit in edits {
        again.apply(edit).unwrap();
    }
    assert_eq!(again, transcript, "made of its snapshot");
}

fn limits() -> OutputLimits {
    OutputLimits {
        cell_text: 200,
        cell_rich: 4096,
        cell_outputs: 8,
        cell_images: 2,
        session: 16 << 10,
        files: 0,
    }
}

fn read_all(bytes: &[u8]) -> (Vec<Entry>, Read) {
    let mut entries = Vec::new();
    let told = read(bytes, |entry, _| entries.push(entry)).unwrap();
    (entries, told)
}
