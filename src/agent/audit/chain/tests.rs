//! What was written reads back, and changes are detected.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::agent::audit::file::AuditFile;
use crate::agent::audit::record::Confined;
use crate::agent::audit::{AuditFiles, Header};

const SESSION: &str = "20261122-k7m2";

fn header() -> Header {
    Header {
        version: VERSION,
        session: SESSION.to_owned(),
        sponde: "0.1.0".to_owned(),
        directory: "/home/ada/wörk".to_owned(),
        approval: "ask".to_owned(),
        sandbox: Confined::of(None),
    }
}

fn records() -> Vec<Record> {
    let mut records = vec![Record::Begun(header())];
    for number in 0..6 {
        records.push(Record::ModelAsked {
            purpose: "reply".to_owned(),
            model: "mock/demo".to_owned(),
            host: Some("127.0.0.1:8080".to_owned()),
        });
        records.push(Record::Decision {
            cell: format!("cell{number}"),
            sha256: sha256(b"1 + 1"),
            decision: "run".to_owned(),
            grounds: Some(crate::agent::approval::Grounds::Policy),
            by: None,
            ruling: None,
        });
        records.push(Record::Files {
            cell: format!("cell{number}"),
            created: vec!["a \"b\"\n.csv".to_owned()],
            changed: vec![],
            deleted: vec![],
            more: 0,
            incomplete: false,
        });
    }
    records.push(Record::Ended);
    records
}

fn with_time(records: Vec<Record>) -> Vec<(String, Record)> {
    let time = "2026-11-22T10:00:00.5Z".to_owned();
    records.into_iter().map(|it| (time.clone(), it)).collect()
}

/// A log in a directory of its own.
fn log() -> (tempfile::TempDir, AuditFiles) {
    let dir = tempfile::tempdir().unwrap();
    let files = AuditFiles::of(
        SESSION,
        &dir.path().join("sessions"),
        &dir.path().join("state"),
    );
    let (mut file, found) = AuditFile::open(files.clone()).unwrap();
    assert!(!found.is_old && found.notes.is_empty());
    for part in with_time(records()).chunks(4) {
        file.append(part, true).unwrap();
    }
    (dir, files)
}

fn verified(files: &AuditFiles) -> (Verified, Vec<Record>) {
    let mut read = Vec::new();
    let verified = files.verify(|line| read.push(line.record.clone())).unwrap();
    (verified, read)
}

fn fault(files: &AuditFiles) -> Option<(u64, String)> {
    verified(files).0.fault.map(|it| (it.line, it.what))
}

#[test]
fn what_was_written_is_read_again() {
    let (_dir, files) = log();
    let (verified, read) = verified(&files);
    assert_eq!(read, records());
    assert_eq!((verified.lines, verified.behind_head), (20, 0));
    assert_eq!(verified.fault, None);
    for path in [&files.log, &files.head, &files.key] {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    assert_eq!(format!("{:?}", files.key().unwrap()), "Key(***)");
}

/// xorshift64*: deterministic.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(random).unwrap() % end
    }
}

/// Tampers with the log in a random way.
fn changed(log: &[u8], random: &mut Random) -> (&'static str, Vec<u8>) {
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let mut edited = lines.clone();
    let (one, two) = (random.below(lines.len()), random.below(lines.len()));
    let name = match random.below(9) {
        0 | 1 => {
            let mut bytes = log.to_vec();
            bytes[random.below(log.len())] ^= 1 << random.below(8);
            return ("flip", bytes);
        }
        2 => {
            edited.remove(one);
            "drop"
        }
        3 => {
            // May remove the last lines as well.
            edited.truncate(one);
            "drop the end"
        }
        4 => {
            edited.swap(one, two);
            "swap"
        }
        5 => {
            edited.insert(two, lines[one]);
            "duplicate"
        }
        6 => return ("truncate", log[..random.below(log.len())].to_vec()),
        7 => {
            let mut bytes = log.to_vec();
            let forged = forged(log, &Key::random(), random.below(2) == 0);
            bytes.extend_from_slice(forged.as_bytes());
            return ("append a forged line", bytes);
        }
        _ => {
            let mut bytes = log.to_vec();
            let garbage: Vec<u8> = (0..=random.below(40))
                .map(|_| u8::try_from(random.below(256)).unwrap())
                .collect();
            bytes.extend(garbage);
            return ("append", bytes);
        }
    };
    (name, edited.concat())
}

/// A line that continues the log, forged without the key.
fn forged(log: &[u8], key: &Key, is_whole: bool) -> String {
    let text = std::str::from_utf8(log).unwrap();
    let last: Line = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut line = String::new();
    let place = (last.seq + 1, &*last.hash);
    key.write(SESSION, place, &last.time, &Record::Ended, &mut line);
    if !is_whole {
        line.pop();
    }
    line
}

#[test]
fn a_thousand_random_changes_are_all_found() {
    let (_dir, files) = log();
    let log = std::fs::read(&files.log).unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut tried: BTreeMap<&str, u32> = BTreeMap::new();
    let mut count = 0;
    while count < 1000 {
        let (name, changed) = changed(&log, &mut random);
        if changed == log {
            continue;
        }
        count += 1;
        *tried.entry(name).or_default() += 1;
        std::fs::write(&files.log, &changed).unwrap();
        let fault = fault(&files);
        assert!(fault.is_some(), "{name} was not found: {changed:?}");
    }
    assert!(
        tried.len() == 8 && tried.values().all(|times| *times > 50),
        "{tried:?}"
    );
    std::fs::write(&files.log, &log).unwrap();
    assert_eq!(fault(&files), None);
}

/// Exhaustive: every bit of every byte, and every line.
#[test]
fn every_byte_and_every_line_counts() {
    let (_dir, files) = log();
    let log = std::fs::read(&files.log).unwrap();
    let (key, head) = (files.key(), files.head());
    let verified = |log: &[u8]| verify(log, SESSION, key.as_ref(), head.as_ref(), |_| {}).unwrap();
    assert_eq!(verified(&log).fault, None);
    let mut changed = log.clone();
    let mut line = 1;
    for at in 0..log.len() {
        let bit = 1 << (at % 8);
        changed[at] ^= bit;
        let found = verified(&changed).fault.map(|fault| fault.line);
        assert_eq!(found, Some(line), "byte {at}");
        changed[at] ^= bit;
        line += u64::from(log[at] == b'\n');
    }
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..lines.len() {
        let mut left = lines.clone();
        left.remove(at);
        let found = verified(&left.concat()).fault.map(|fault| fault.line);
        assert_eq!(found, Some(at as u64 + 1), "line {at}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let (_dir, files) = log();
    let log = std::fs::read_to_string(&files.log).unwrap();
    let head = std::fs::read(&files.head).unwrap();
    let key = std::fs::read(&files.key).unwrap();
    let with = |log: &str| {
        std::fs::write(&files.log, log).unwrap();
        fault(&files).unwrap()
    };
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    assert_eq!(
        with(&lines[..17].concat()),
        (18, "3 lines are missing at the end".to_owned())
    );
    assert_eq!(
        with(&log.replacen("/home/ada", "/home/eve", 1)),
        (1, "it was changed: its hash is another one".to_owned())
    );
    assert_eq!(
        with(&[&lines[..3], &lines[5..]].concat().concat()),
        (
            4,
            "it is number 6: 2 lines before it are missing".to_owned()
        )
    );
    assert_eq!(
        with(&[&lines[..3], &lines[2..]].concat().concat()),
        (4, "it is number 3, which was there before".to_owned())
    );
    assert_eq!(
        with(log.trim_end()),
        (
            20,
            "it is incomplete: a process was killed while it wrote, or its end was changed"
                .to_owned()
        )
    );
    assert_eq!(with("").0, 1);
    std::fs::write(&files.log, &log).unwrap();
    std::fs::write(&files.head, "").unwrap();
    assert!(
        fault(&files)
            .unwrap()
            .1
            .starts_with("the head of this log is not there")
    );
    // We never write a head that covers fewer lines.
    let ours = String::from_utf8(head.clone()).unwrap();
    std::fs::write(&files.head, ours.replace("\"seq\":20", "\"seq\":19")).unwrap();
    assert!(
        fault(&files)
            .unwrap()
            .1
            .starts_with("the head of this log was changed")
    );
    std::fs::write(&files.head, &head).unwrap();
    std::fs::remove_file(&files.key).unwrap();
    assert!(
        fault(&files)
            .unwrap()
            .1
            .starts_with("the key that sealed this log is not there")
    );
    std::fs::write(&files.key, Key::random().to_text()).unwrap();
    assert_eq!(
        fault(&files).unwrap(),
        (
            1,
            "it was not sealed on this machine for this session".to_owned()
        )
    );
    std::fs::write(&files.key, key).unwrap();
    assert_eq!(fault(&files), None);
}

#[test]
fn a_log_of_another_session_does_not_pass() {
    let (_dir, files) = log();
    let other = AuditFiles {
        session: "20261122-x9f4".to_owned(),
        ..files
    };
    assert_eq!(fault(&other).unwrap().0, 1);
}

#[test]
fn a_line_that_was_torn_is_cut_off_and_named() {
    let (_dir, files) = log();
    let log = std::fs::read(&files.log).unwrap();
    let mut torn = log.clone();
    torn.extend_from_slice(b"{\"seq\":21,\"time\":\"2026");
    std::fs::write(&files.log, &torn).unwrap();
    assert_eq!(fault(&files).unwrap().0, 21);
    let (mut file, found) = AuditFile::open(files.clone()).unwrap();
    let mended = Record::Mended {
        bytes: 22,
        sha256: sha256(b"{\"seq\":21,\"time\":\"2026"),
    };
    assert_eq!((found.is_old, &found.notes), (true, &vec![mended]));
    file.append(&with_time(found.notes), true).unwrap();
    assert_eq!(fault(&files), None);
    assert_eq!(verified(&files).0.lines, 21);
}

#[test]
fn lines_newer_than_the_head_are_ours_if_they_are_sealed() {
    let (_dir, files) = log();
    let head = std::fs::read(&files.head).unwrap();
    let (mut file, _) = AuditFile::open(files.clone()).unwrap();
    file.append(&with_time(vec![Record::Ended]), true).unwrap();
    // As if the process had been killed before writing the head.
    std::fs::write(&files.head, head).unwrap();
    let (verified, _) = verified(&files);
    assert_eq!((verified.behind_head, verified.fault), (1, None));
}

#[test]
fn a_log_that_was_changed_never_becomes_whole_again() {
    let (_dir, files) = log();
    let log = std::fs::read(&files.log).unwrap();
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    let without_end = lines[..15].concat();
    for (change, bad) in [(Some(without_end), 16), (None, 1)] {
        match change {
            Some(bytes) => std::fs::write(&files.log, bytes).unwrap(),
            None => std::fs::remove_file(&files.log).unwrap(),
        }
        let (mut file, found) = AuditFile::open(files.clone()).unwrap();
        assert!(matches!(&found.notes[..], [Record::Broken { line, .. }] if *line == bad));
        file.append(&with_time(found.notes), true).unwrap();
        file.append(&with_time(vec![Record::Ended]), true).unwrap();
        assert_eq!(fault(&files).unwrap().0, bad);
    }
}

#[test]
fn a_log_that_is_removed_while_it_is_written_is_missed() {
    let (_dir, files) = log();
    let (mut file, _) = AuditFile::open(files.clone()).unwrap();
    std::fs::remove_file(&files.log).unwrap();
    file.append(&with_time(vec![Record::Ended]), true).unwrap();
    assert_eq!(
        fault(&files).unwrap(),
        (
            1,
            "it is number 21: 20 lines before it are missing".to_owned()
        )
    );
}
