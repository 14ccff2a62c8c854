//! The targets over the inputs that are kept, and over changed copies of these.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;

/// How long changed inputs are tried; 20 s of all tests together cost nothing where tests run side by side.
const FOR: Duration = Duration::from_secs(20);
const LONGEST: usize = 16 << 10;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(target);
    let entries =
        std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_target_holds_for_its_corpus() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!(files.len() >= 5, "`{name}` has {} inputs", files.len());
        target(&[]);
        for (path, bytes) in files {
            // Said where a panic shows it.
            println!("{}", path.display());
            target(&bytes);
        }
    }
}

/// Changed and mixed inputs. What is found is written beside the test's temporary files, and said.
fn mutate(name: &str) {
    let (_, target) = TARGETS.into_iter().find(|(it, _)| *it == name).unwrap();
    let inputs: Vec<Vec<u8>> = corpus(name).into_iter().map(|(_, bytes)| bytes).collect();
    let seed = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs();
    let mut dice = Dice::new(seed);
    let begun = Instant::now();
    let mut runs = 0_u64;
    while begun.elapsed() < FOR {
        let mut input = inputs[dice.below(inputs.len())].clone();
        for _ in 0..=dice.below(6) {
            change(&mut input, &inputs, &mut dice);
        }
        input.truncate(LONGEST);
        if let Err(panic) = std::panic::catch_unwind(|| target(&input)) {
            let path = std::env::temp_dir().join(format!("sponde-fuzz-{name}-{seed}"));
            std::fs::write(&path, &input).unwrap();
            println!("`{name}` fails for `{}`", path.display());
            std::panic::resume_unwind(panic);
        }
        runs += 1;
    }
    println!("{name}: {runs} inputs, seed {seed}");
    assert!(runs > 100, "only {runs} inputs");
}

fn change(input: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    const TELLING: &[u8] = b"\0\x01\x02\x04\x07\x08\x1b\x7f\x80\x9b\xff\r\n\"'`{}[]\\,:<>#~ 0";
    let at = dice.below(input.len() + 1);
    let end = input.len().min(at + 1 + dice.below(32));
    match dice.below(7) {
        0 => input.insert(at, TELLING[dice.below(TELLING.len())]),
        1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = TELLING[dice.below(TELLING.len())];
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        3 => drop(input.drain(at..end)),
        4 => {
            let copy = input[at..end].to_vec();
            let to = dice.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        5 => {
            let other = &others[dice.below(others.len())];
            let from = dice.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => {
            let many = 1 << dice.below(8);
            let byte = TELLING[dice.below(TELLING.len())];
            input.splice(at..at, std::iter::repeat_n(byte, many));
        }
    }
}

#[test]
fn what_a_kernel_sends_in_changed_copies() {
    mutate("wire");
}

#[test]
fn notebooks_in_changed_copies() {
    mutate("notebook");
}
