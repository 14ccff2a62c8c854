//! The audit logs of sessions: what they begin with, and finding, checking, reading and exporting them.
//!
//! Deliberately not here: how a terminal shows them.

use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use super::Context;
use crate::agent::approval::{Approval, Grounds};
use crate::agent::audit::record::{Confined, VERSION};
use crate::agent::audit::{AuditFiles, AuditOptions, Fault, Header, Line, Record, Verified};
use crate::agent::sessions::{self, FindError};
use crate::error::{Exit, Failure};
use crate::kernel::{Extent, LaunchOptions};

/// How a log is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// As it is: one JSON object a line, which can be checked again.
    JsonLines,
    /// A table.
    Csv,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditLog {
    /// Its files.
    pub files: AuditFiles,
    /// Whether it is whole.
    pub verified: Verified,
    /// Its lines up to the first bad one.
    pub lines: Vec<Line>,
}

/// What is written of the session `id`, whose main kernel starts as `main` says.
pub(super) fn options(
    id: &str,
    main: &LaunchOptions,
    approval: Approval,
    context: &Context,
) -> AuditOptions {
    let is_ours = main.gateway.is_none() && main.existing.is_none();
    let extent = is_ours.then(|| Extent::of(&main.sandbox));
    AuditOptions {
        files: files(id, context),
        header: Header {
            version: VERSION,
            session: id.to_owned(),
            sponde: env!("CARGO_PKG_VERSION").to_owned(),
            directory: main.cwd.display().to_string(),
            approval: approval.name().to_owned(),
            sandbox: Confined::of(extent.as_ref()),
        },
    }
}

fn files(id: &str, context: &Context) -> AuditFiles {
    AuditFiles::of(id, &context.paths.sessions(), &context.paths.state)
}

/// The log of the session that `wanted` means; of the latest if nothing is named.
///
/// # Errors
/// There is no such session, or it has no log.
pub fn find(wanted: Option<&str>, context: &Context) -> Result<AuditFiles, Failure> {
    // Also of a session that is gone but for its log.
    if let Some(id) = wanted.filter(|id| is_name(id)) {
        let files = files(id, context);
        if files.head.exists() || files.log.exists() {
            return Ok(files);
        }
    }
    let all = sessions::list(&context.paths.sessions());
    let found = match wanted {
        Some(wanted) => sessions::find(&all, wanted).map_err(|error| {
            let failure = Failure::usage(error.to_string());
            match error {
                FindError::None(_) => failure.hint("`sponde sessions` lists them"),
                FindError::Several { .. } => failure.hint("say more of it"),
            }
        })?,
        None => all
            .first()
            .ok_or_else(|| Failure::usage("there is no session yet"))?,
    };
    let files = files(&found.id, context);
    if files.head.exists() || files.log.exists() {
        return Ok(files);
    }
    Err(
        Failure::usage(format!("session `{}` has no audit log", found.id))
            .hint("sessions have one since they were begun by a version that writes it"),
    )
}

/// The logs of all sessions of which there is a log or a head, by id.
pub fn all(context: &Context) -> Vec<AuditFiles> {
    let mut ids = Vec::new();
    for (dir, end) in [
        (context.paths.sessions(), "audit"),
        (context.paths.state.join("audit"), "head"),
    ] {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|it| it == end)
                && let Some(id) = path.file_stem().and_then(|it| it.to_str())
            {
                ids.push(id.to_owned());
            }
        }
    }
    ids.sort_unstable();
    ids.dedup();
    ids.iter().map(|id| files(id, context)).collect()
}

/// Whether it can be the name of a file, and leads nowhere else.
fn is_name(id: &str) -> bool {
    Path::new(id).file_name().is_some_and(|name| name == id)
}

/// Reads and checks a log.
///
/// # Errors
/// It cannot be read.
pub fn read(files: AuditFiles) -> Result<AuditLog, Failure> {
    let mut lines = Vec::new();
    let verified = verify(&files, |line| lines.push(line.clone()))?;
    Ok(AuditLog {
        files,
        verified,
        lines,
    })
}

/// Checks a log.
///
/// # Errors
/// It cannot be read.
pub fn verify(files: &AuditFiles, each: impl FnMut(&Line)) -> Result<Verified, Failure> {
    files.verify(each).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("could not read `{}`: {error}", files.log.display()),
        )
    })
}

/// What a person is told of a log that is not whole.
pub fn failure(files: &AuditFiles, fault: &Fault) -> Failure {
    let Fault { line, what } = fault;
    Failure::new(
        Exit::Failed,
        format!(
            "the audit log of session {} is not whole: line {line}: {what}",
            files.session
        ),
    )
    .details(Some(&files.log.display().to_string()))
}

/// Writes a log for other programs.
///
/// # Errors
/// Those of reading and writing.
pub fn export(log: &AuditLog, format: Format, mut to: impl Write) -> io::Result<()> {
    match format {
        // Byte for byte, so that the hashes are still those of the lines.
        Format::JsonLines => {
            io::copy(&mut std::fs::File::open(&log.files.log)?, &mut to)?;
        }
        Format::Csv => {
            let mut table = csv::Writer::from_writer(&mut to);
            table.write_record(["seq", "time", "kind", "details", "hash"])?;
            for line in &log.lines {
                let (kind, details) = parts(&line.record);
                let row = [
                    line.seq.to_string(),
                    line.time.clone(),
                    kind,
                    details.to_string(),
                    line.hash.clone(),
                ];
                table.write_record(&row)?;
            }
            table.flush()?;
        }
    }
    to.flush()
}

/// The kind of a record, and the rest of it.
fn parts(record: &Record) -> (String, Value) {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    let kind = value
        .as_object_mut()
        .and_then(|fields| fields.shift_remove("kind"));
    let kind = kind.and_then(|kind| kind.as_str().map(str::to_owned));
    (kind.unwrap_or_default(), value)
}

/// How a record is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Plain,
    /// Somebody decided something.
    Decision,
    /// To be looked at.
    Warning,
}

/// A record in words: what it is about, and what happened.
pub fn words(record: &Record) -> (&'static str, String, Tone) {
    use Tone::{Decision, Plain, Warning};
    let short = |sha256: &str| sha256.get(..12).unwrap_or(sha256).to_owned();
    match record {
        Record::Begun(header) => ("begun", header_words(header), Plain),
        Record::Resumed(header) => ("resumed", header_words(header), Plain),
        Record::ModelAsked {
            purpose,
            model,
            host,
        } => {
            let host = host
                .as_deref()
                .map_or(String::new(), |it| format!(" at {it}"));
            (
                "model",
                format!("asked {model}{host} for a {purpose}"),
                Plain,
            )
        }
        Record::ModelAnswered {
            input_tokens,
            output_tokens,
            ..
        } => (
            "model",
            format!("read {input_tokens} and wrote {output_tokens} tokens"),
            Plain,
        ),
        Record::ModelChanged { model } => ("model", format!("{model} from now on"), Plain),
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
            let what = if *go_on { "goes on" } else { "ends" };
            ("limit", format!("the turn {what}, said {by}"), Decision)
        }
        Record::KernelStarted { kernel, sandbox } => (
            "kernel",
            format!("{kernel} is there; {}", sandbox_words(sandbox)),
            Plain,
        ),
        Record::KernelDied { kernel, reason } => {
            ("kernel", format!("{kernel} is gone: {reason}"), Warning)
        }
        Record::KernelFailed { kernel } => {
            ("kernel", format!("{kernel} could not be started"), Warning)
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
        Record::Connection(fields) => ("network", Value::Object(fields.clone()).to_string(), Plain),
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
        Record::Mended { bytes, .. } => (
            "log",
            format!("an incomplete line of {bytes} bytes was cut off: a process was killed"),
            Warning,
        ),
        Record::Broken { line, what } => (
            "log",
            format!("found changed when it was opened: line {line}: {what}"),
            Warning,
        ),
        Record::Lost { records } => (
            "log",
            format!("{records} records are missing: the disk took none"),
            Warning,
        ),
        Record::Missed { items } => (
            "log",
            format!("up to {items} things were not seen in time"),
            Warning,
        ),
        Record::Ended => ("ended", String::new(), Plain),
        Record::Unknown => ("?", "a record of a later version".to_owned(), Plain),
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
        Some(Grounds::Undo) => format!("{decision} again, to take back what came after"),
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
