//! Floor 2: the transcript is the notebook.
//!
//! Every change to a session is one [`Edit`], applied in one place. The `.ipynb`, the model's prompt and the screen
//! are renderings of the transcript; nobody keeps a second copy. Nothing here talks to a kernel, a model or the
//! clock.

pub mod carried;
pub mod changes;
pub mod chart;
pub mod check;
pub mod compaction;
pub mod context;
mod fold;
pub mod journal;
pub mod limits;
mod marks;
pub mod notebook;
pub mod numbered;
pub mod open;
pub mod outputs;
pub mod parameters;
pub mod percent;
pub mod plot_data;
mod sent;
pub mod shown_text;
pub mod sql;
pub mod summarize;
pub mod transcript;
pub mod visual;
pub mod widgets;

pub use limits::OutputLimits;
pub use outputs::Outputs;
pub use transcript::{
    Cell, CellKind, CellStatus, CodeCell, CodeStatus, Edit, EditError, Transcript,
};
