//! Fuzzes replies with fenced blocks: fragmentation does not matter, cells begin and end in order, and nothing is
//! invented.

use super::reader::Reader;
use crate::fuzz::seeded;
use crate::llm::coded::{Accept, Piece, ReadReply as _};

/// The first bytes determine the fragmentation of the rest, which is the reply.
pub(crate) fn fenced(data: &[u8]) {
    let (mut dice, rest) = seeded(data);
    let reply = String::from_utf8_lossy(rest);
    for accept in [Accept::Blocks, Accept::Calls, Accept::Words] {
        for cut in [false, true] {
            let whole = read(&[&reply], accept, cut);
            assert_eq!(
                read(&dice.words(&reply), accept, cut),
                whole,
                "cut in pieces"
            );
            check(&whole, &reply);
        }
    }
}

/// The pieces read from a reply, adjacent ones of one kind joined.
fn read(fragments: &[&str], accept: Accept, cut: bool) -> Vec<Piece> {
    let mut reader = Reader::new(accept);
    let mut pieces: Vec<Piece> = fragments.iter().flat_map(|it| reader.read(it)).collect();
    pieces.extend(reader.finish(cut));
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more))
            | (Some(Piece::Code(text)), Piece::Code(more)) => text.push_str(&more),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

fn check(pieces: &[Piece], reply: &str) {
    let mut is_open = false;
    let mut size = 0;
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Begin(_) => {
                assert!(!is_open, "a cell in a cell");
                is_open = true;
            }
            Piece::Code(code) => {
                assert!(is_open, "code in no cell");
                size += code.len();
            }
            Piece::End => {
                assert!(is_open, "an end of nothing");
                is_open = false;
            }
            Piece::Text(text) => {
                size += text.len();
            }
            Piece::Call(_, arguments) | Piece::Arguments(arguments) => size += arguments.len() / 8,
            Piece::Stop => assert_eq!(at + 1, pieces.len(), "something after the stop"),
        }
    }
    // Import lines before a fence are repeated in each block; a blank line separates texts.
    assert!(
        size <= 2 * reply.len() + 2 * pieces.len() + 64,
        "{size} of {}",
        reply.len()
    );
}
