//! Arguments of `sponde ask`.

use std::path::PathBuf;

use clap::Args;

use super::SessionArgs;

/// `sponde ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// The question; `-` reads it from stdin.
    pub question: String,
    /// How.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Print events as JSON, one a line (docs/events.md).
    #[arg(long)]
    pub json: bool,
    /// What becomes of the answer.
    #[command(flatten)]
    pub answer: AnswerArgs,
}

/// What becomes of the answer.
#[derive(Debug, Default, Args)]
pub struct AnswerArgs {
    /// Also write the last answer to this file, once the question is answered.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Require a JSON answer that is valid under the JSON schema in this file. The model gets one more try; stdout
    /// gets the JSON and nothing else.
    #[arg(long, value_name = "FILE")]
    pub output_schema: Option<PathBuf>,
    /// Print only the last answer and errors, and ask nothing.
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
}
