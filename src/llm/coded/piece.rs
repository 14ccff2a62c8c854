//! Pieces of a reply, and which of them may run.

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text.
    Text(String),
    /// A cell begins, in this language; `None` is the main kernel's.
    Begin(Option<String>),
    /// More of its code.
    Code(String),
    /// The cell is complete. A cell without this was cut off.
    End,
    /// A call written as text: the tool, if named, and the raw arguments, or their beginning.
    Call(Option<String>, String),
    /// More of its arguments.
    Arguments(String),
    /// The model starts inventing outputs. Nothing follows.
    Stop,
}

/// Which parts of a reply may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accept {
    /// Blocks of code, and calls written as text.
    Blocks,
    /// Calls written as text: for models that can call tools but sometimes write the call instead.
    Calls,
    /// Nothing.
    Words,
}

/// Reads a text reply while it streams.
pub(crate) trait ReadReply: Send {
    /// The pieces that `fragment` completes.
    fn read(&mut self, fragment: &str) -> Vec<Piece>;

    /// The remaining pieces at the end of the reply; `cut` if it ended at a limit before the model was done.
    fn finish(&mut self, cut: bool) -> Vec<Piece>;

    /// A reader of the same kind for a retried reply.
    fn anew(&self) -> Box<dyn ReadReply>;
}
