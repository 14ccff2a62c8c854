//! Lists the parameters that a notebook declares.

use std::fmt::Write as _;

use super::super::filter;
use crate::session::parameters::Declared;

/// One per line: name, kind, default, description.
pub(super) fn list(all: Vec<Declared>) -> String {
    let mut text = String::new();
    for parameter in all {
        let kind = parameter
            .annotation
            .map(|kind| format!(": {kind}"))
            .unwrap_or_default();
        let line = format!("{}{kind} = {}", parameter.name, parameter.default);
        let help = parameter.help;
        let _ = if help.is_empty() {
            writeln!(text, "{line}")
        } else {
            writeln!(text, "{line:<32}  {help}")
        };
    }
    filter::plain(&text)
}
