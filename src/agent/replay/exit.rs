//! `sys.exit`: the status of a script, and removing what IPython adds to the output.

use super::Exits;
use crate::jupyter::content::Stream;
use crate::kernel::{OutputEvent, Verdict};

/// The exception raised by `sys.exit`.
const EXIT: &str = "SystemExit";
/// IPython's warning for people who wanted to leave its prompt.
const ADVICE: &str = "UserWarning: To exit: use 'exit', 'quit', or Ctrl-D.";

/// The status of code that called `sys.exit`, as Python would return it; `None` if it did not.
pub(super) fn status(verdict: &Verdict) -> Option<u8> {
    let Verdict::Error { ename, evalue } = verdict else {
        return None;
    };
    (ename == EXIT).then(|| match number(evalue) {
        // The system truncates larger values.
        Some(status) => u8::try_from(status.rem_euclid(256)).unwrap_or(1),
        None => 1,
    })
}

fn number(evalue: &str) -> Option<i64> {
    match evalue {
        "" | "None" | "False" => Some(0),
        "True" => Some(1),
        other => other.parse().ok(),
    }
}

/// Removes IPython's warning from an output. Returns whether anything is left.
pub(super) fn quiet(output: &mut OutputEvent, exits: Exits) -> bool {
    let OutputEvent::Stream(stream) = output else {
        return true;
    };
    if exits == Exits::AsJupyter || stream.name != "stderr" || !stream.text.contains(ADVICE) {
        return true;
    }
    let mut kept = String::new();
    let mut source = false;
    for line in stream.text.split_inclusive('\n') {
        // IPython's source line follows.
        let is_source = std::mem::take(&mut source) && line.trim_start().starts_with("warn(");
        if line.contains(ADVICE) {
            source = true;
        } else if !is_source {
            kept.push_str(line);
        }
    }
    stream.text = kept;
    !stream.text.is_empty()
}

/// What Python prints when a script exits: nothing, or the message given instead of a status.
pub(super) fn words(output: OutputEvent, exits: Exits) -> Option<OutputEvent> {
    match output {
        OutputEvent::Error(error) if exits == Exits::AsPython && error.ename == EXIT => {
            let says = number(&error.evalue).is_none();
            says.then(|| {
                OutputEvent::Stream(Stream {
                    name: "stderr".to_owned(),
                    text: error.evalue + "\n",
                })
            })
        }
        output => Some(output),
    }
}
