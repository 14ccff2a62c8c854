//! Describes the records of an audit log for people.

use crate::agent::approval::Grounds;
use crate::agent::audit::record::Confined;
use crate::agent::audit::{Header, Record};
use crate::agent::tool_calls::{ToolCall, ToolCallEnd};

/// How important a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A normal event.
    Plain,
    /// A decision.
    Decision,
    /// A warning.
    Warning,
}

/// The description of a record: its subject, and what happened.
pub fn words(record: &Record) -> (&'static str, String, Tone) {
    use Tone::{Decision, Plain, Warning};
    let short = |sha256: &str| sha256.get(..12).unwrap_or(sha256).to_owned();
    match record {
        Record::Begun(header) => ("begun", header_words(header), Plain),
        Record::Resumed(header) => ("resumed", header_words(header), Plain),
        Record::ModelAsked { .. } | Record::ModelAnswered { .. } | Record::ModelChanged { .. } => {
            ("model", model_words(record), Plain)
        }
        Record::CodeProposed { cell, author, code } => (
            "code",
            format!(
                "{cell}: {} bytes of {} by the {author}, {}",
                code.bytes,
                code.language,
                short(&code.sha256)
            ),
            Plain,
        ),
        Record::CodeChanged { cell, by, code } => (
            "code",
            format!(
                "{cell}: changed by {}, {} bytes, {}",
                by.as_deref().unwrap_or("a person"),
                code.bytes,
                short(&code.sha256)
            ),
            Decision,
        ),
        Record::Decision { cell, sha256, .. } => (
            "decision",
            format!("{cell}: {}, {}", decision_words(record), short(sha256)),
            Decision,
        ),
        Record::Ran { cell, code } => ("ran", format!("{cell}: {}", short(&code.sha256)), Plain),
        Record::Outcome {
            cell,
            status,
            again,
        } => {
            let again = if *again { ", run again" } else { "" };
            let tone = if status == "ok" { Plain } else { Warning };
            ("outcome", format!("{cell}: {status}{again}"), tone)
        }
        Record::Limit { limit, cell } => {
            let cell = cell
                .as_deref()
                .map_or(String::new(), |it| format!("{it}: "));
            (
                "limit",
                format!("{cell}{}", limit.replace('_', " ")),
                Warning,
            )
        }
        Record::LimitAnswered { go_on, by } => {
            let what = if *go_on { "continues" } else { "ends" };
            ("limit", format!("the turn {what}, said {by}"), Decision)
        }
        Record::KernelStarted { .. } | Record::KernelDied { .. } | Record::KernelFailed { .. } => {
            kernel_words(record)
        }
        Record::InputAnswered { cell, by, client } => (
            "input",
            format!("{cell}: a line by {}", client.as_deref().unwrap_or(by)),
            Plain,
        ),
        Record::ApprovalChanged { approval, by } => (
            "approval",
            format!("{approval} from now on, said {by}"),
            Decision,
        ),
        Record::Connection(connection) => ("network", connection.to_string(), Plain),
        Record::ToolCalled(call) => ("tool", call_words(call), Plain),
        Record::Files { .. } => ("files", files_words(record), Plain),
        Record::Undone {
            cells, variables, ..
        } => (
            "undone",
            format!("{cells} cells; variables from {variables}"),
            Decision,
        ),
        Record::Restored { by, ran, differing } => (
            "restored",
            format!("by {by}; {ran} cells ran again, {differing} with other outputs"),
            Plain,
        ),
        Record::TurnFinished { end } => ("turn", end.replace('_', " "), Plain),
        Record::Mended { .. }
        | Record::Broken { .. }
        | Record::Lost { .. }
        | Record::Missed { .. } => ("log", log_words(record), Warning),
        Record::Ended => ("ended", String::new(), Plain),
        Record::Unknown => ("?", "a record of a later version".to_owned(), Plain),
    }
}

fn model_words(record: &Record) -> String {
    match record {
        Record::ModelAsked {
            purpose,
            model,
            host,
        } => {
            let host = host
                .as_deref()
                .map_or(String::new(), |it| format!(" at {it}"));
            format!("asked {model}{host} for a {purpose}")
        }
        Record::ModelAnswered {
            input_tokens,
            output_tokens,
            ..
        } => format!("read {input_tokens} and wrote {output_tokens} tokens"),
        Record::ModelChanged { model } => format!("{model} from now on"),
        _ => String::new(),
    }
}

fn kernel_words(record: &Record) -> (&'static str, String, Tone) {
    match record {
        Record::KernelStarted { kernel, sandbox } => (
            "kernel",
            format!("{kernel} is there; {}", sandbox_words(sandbox)),
            Tone::Plain,
        ),
        Record::KernelDied { kernel, reason } => {
            let words = format!("{kernel} is gone: {reason}");
            ("kernel", words, Tone::Warning)
        }
        Record::KernelFailed { kernel } => {
            let words = format!("{kernel} could not be started");
            ("kernel", words, Tone::Warning)
        }
        _ => ("kernel", String::new(), Tone::Plain),
    }
}

/// Events of the log itself.
fn log_words(record: &Record) -> String {
    match record {
        Record::Mended { bytes, .. } => {
            format!("an incomplete line of {bytes} bytes was cut off: a process was killed")
        }
        Record::Broken { line, what } => {
            format!("found changed when it was opened: line {line}: {what}")
        }
        Record::Lost { records } => {
            format!("{records} records are missing: the disk took none")
        }
        Record::Missed { items } => format!("up to {items} things were not seen in time"),
        _ => String::new(),
    }
}

fn header_words(header: &Header) -> String {
    format!(
        "session {} by sponde {} in {}; approval {}; {}",
        header.session,
        header.sponde,
        header.directory,
        header.approval,
        sandbox_words(&header.sandbox)
    )
}

fn sandbox_words(sandbox: &Confined) -> String {
    let Confined {
        level,
        tier,
        network,
        add_dirs,
    } = sandbox;
    let tier = tier
        .as_deref()
        .map_or(String::new(), |it| format!(" ({it})"));
    let dirs = if add_dirs.is_empty() {
        String::new()
    } else {
        format!(", also {}", add_dirs.join(", "))
    };
    format!("sandbox {level}{tier}, network {network}{dirs}")
}

fn call_words(called: &ToolCall) -> String {
    let ToolCall {
        server, tool, end, ..
    } = called;
    let place = called.cell.as_deref();
    let place = place.map_or(String::new(), |it| format!("{it}: "));
    let end = match end {
        ToolCallEnd::Returned => "returned".to_owned(),
        ToolCallEnd::Failed => "failed".to_owned(),
        ToolCallEnd::Refused => "refused".to_owned(),
        ToolCallEnd::LeftOut { calls } => format!("and others: {calls} calls in a minute"),
    };
    format!("{place}{server}.{tool} {end}")
}

fn decision_words(record: &Record) -> String {
    let Record::Decision {
        decision,
        grounds,
        by,
        ..
    } = record
    else {
        return String::new();
    };
    let by = by.as_deref().unwrap_or("nobody");
    match grounds {
        Some(Grounds::Policy) => format!("{decision} without asking: policy"),
        Some(Grounds::Own) => format!("{decision}, own code of {by}"),
        Some(Grounds::Replay) => format!("{decision} again, said {by}"),
        Some(Grounds::Undo) => format!("{decision} again, to undo what came after"),
        Some(Grounds::Decided) | None => format!("{decision}, said {by}"),
    }
}

fn files_words(record: &Record) -> String {
    let Record::Files {
        cell,
        created,
        changed,
        deleted,
        more,
        incomplete,
    } = record
    else {
        return String::new();
    };
    let marked = |mark: char, paths: &[String]| -> Vec<String> {
        paths.iter().map(|path| format!("{mark} {path}")).collect()
    };
    let mut all = marked('+', created);
    all.extend(marked('~', changed));
    all.extend(marked('-', deleted));
    if *more > 0 {
        all.push(format!("and {more} more"));
    }
    if *incomplete {
        all.push("perhaps others".to_owned());
    }
    format!("{cell}: {}", all.join(", "))
}
