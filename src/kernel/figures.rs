//! What a Python kernel learns to tell of figures: `figures.py` finds what a figure of matplotlib was drawn from. What is
//! done with that is code of the floors above, which comes behind it.

const FIGURES: &str = include_str!("figures.py");

/// Code that calls `_sponde_figures`, with its definition.
pub fn with_figures(code: &str) -> String {
    format!("{FIGURES}{code}")
}
