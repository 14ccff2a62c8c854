//! What a reply consists of, and what of it may be run.

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Words.
    Text(String),
    /// A cell begins, in this language; `None` is the main one.
    Begin(Option<String>),
    /// More of its code.
    Code(String),
    /// It is complete. A cell without this was cut.
    End,
    /// A whole call: the tool, if named, and the arguments as they were written.
    Call(Option<String>, String),
    /// From here on the model makes up outputs. Nothing more comes.
    Stop,
}

/// What of a reply is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accept {
    /// Blocks of code, and calls written as text.
    Blocks,
    /// Calls written as text: for models that can call tools and sometimes write instead.
    Calls,
    /// Nothing.
    Words,
}
