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
    /// A call: the tool, if named, and the arguments as they were written, or their beginning.
    Call(Option<String>, String),
    /// More of its arguments.
    Arguments(String),
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

/// Reads a reply in text while it is being written.
pub(crate) trait ReadReply: Send {
    /// What `fragment` adds.
    fn read(&mut self, fragment: &str) -> Vec<Piece>;

    /// What is left when the reply ended; `cut` if it ended at a limit and not because the model was done.
    fn finish(&mut self, cut: bool) -> Vec<Piece>;

    /// A reader of the same kind for a reply that begins anew.
    fn anew(&self) -> Box<dyn ReadReply>;
}
