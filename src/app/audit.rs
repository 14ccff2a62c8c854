//! The audit logs of sessions: their options, and finding, verifying, reading and exporting them.
//!
//! Deliberately not here: how a terminal shows them.

mod words;

use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use super::Context;
use crate::agent::approval::Approval;
use crate::agent::audit::record::{Confined, VERSION};
use crate::agent::audit::{AuditFiles, AuditOptions, Fault, Header, Line, Record, Verified};
use crate::agent::sessions::{self, FindError};
use crate::error::{Failure, FailureKind};
use crate::kernel::{Extent, LaunchOptions, Sandbox};
pub use words::{Tone, words};

/// The format of an exported log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Unchanged: one JSON object per line, which can be verified again.
    JsonLines,
    /// A table.
    Csv,
}

/// A log that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditLog {
    /// Its files.
    pub files: AuditFiles,
    /// The result of the verification.
    pub verified: Verified,
    /// Its lines up to the first bad one.
    pub lines: Vec<Line>,
}

/// The audit options of the session `id`, whose main kernel starts with `main`.
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
        redactor: context.redactor.clone(),
        header: Header {
            version: VERSION,
            session: id.to_owned(),
            sponde: env!("CARGO_PKG_VERSION").to_owned(),
            directory: main.cwd.display().to_string(),
            approval: approval.name().to_owned(),
            sandbox: Confined::of(extent.as_ref()),
        },
        connections: match &main.sandbox {
            Sandbox::Confined(confinement) if is_ours => {
                Some(confinement.network_context.connections.clone())
            }
            Sandbox::Confined(_) | Sandbox::Full => None,
        },
    }
}

fn files(id: &str, context: &Context) -> AuditFiles {
    AuditFiles::of(id, &context.paths.sessions(), &context.paths.state)
}

/// The log of the session that `wanted` names; of the latest if it names none.
///
/// # Errors
/// There is no such session, or it has no log.
pub fn find(wanted: Option<&str>, context: &Context) -> Result<AuditFiles, Failure> {
    // This also finds a session of which only the log is left.
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

/// The logs of all sessions with a log or a head, by id.
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

/// Whether it is a plain file name that leads to no other directory.
fn is_name(id: &str) -> bool {
    Path::new(id).file_name().is_some_and(|name| name == id)
}

/// Reads and verifies a log.
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

/// Verifies a log.
///
/// # Errors
/// It cannot be read.
pub fn verify(files: &AuditFiles, each: impl FnMut(&Line)) -> Result<Verified, Failure> {
    files.verify(each).map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("could not read `{}`: {error}", files.log.display()),
        )
    })
}

/// The failure shown for a log that is not intact.
pub fn failure(files: &AuditFiles, fault: &Fault) -> Failure {
    let Fault { line, what } = fault;
    Failure::new(
        FailureKind::Failed,
        format!(
            "the audit log of session {} is not whole: line {line}: {what}",
            files.session
        ),
    )
    .details(Some(&files.log.display().to_string()))
}

/// Exports a log for other programs.
///
/// # Errors
/// Errors of reading and writing.
pub fn export(log: &AuditLog, format: Format, mut to: impl Write) -> io::Result<()> {
    match format {
        // Byte for byte, so that the hashes still match the lines.
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

/// The kind of a record, and its other fields.
fn parts(record: &Record) -> (String, Value) {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    let kind = value
        .as_object_mut()
        .and_then(|fields| fields.shift_remove("kind"));
    let kind = kind.and_then(|kind| kind.as_str().map(str::to_owned));
    (kind.unwrap_or_default(), value)
}
