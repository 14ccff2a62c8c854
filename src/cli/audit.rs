//! `sponde audit`: shows the contents of audit logs, and whether they are intact.

use std::fmt::Write as _;
use std::io::Write as _;

use super::args::{AuditArgs, AuditCommand, AuditFormat};
use super::style::{BAD, DIM, GOOD, HINT, WARN, paint, stdout_colours};
use super::{Context, filter, print, unread};
use crate::agent::audit::AuditFiles;
use crate::app::audit::{self, AuditLog, Format, Tone};
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Characters of a timestamp without fractions of a second.
const TIME: usize = 19;

/// Runs it.
pub(super) fn audit(args: AuditArgs, context: &Context) -> Result<Exit, Failure> {
    match args.command {
        AuditCommand::Verify { all: true, .. } => verify_all(context),
        AuditCommand::Verify {
            session,
            all: false,
        } => verify(&audit::find(session.as_deref(), context)?),
        AuditCommand::Show { session } => {
            let log = audit::read(audit::find(session.as_deref(), context)?)?;
            print(&shown(&log, stdout_colours()))?;
            end(&log)
        }
        AuditCommand::Export {
            session,
            format,
            output,
        } => {
            let log = audit::read(audit::find(session.as_deref(), context)?)?;
            let format = match format {
                AuditFormat::Jsonl => Format::JsonLines,
                AuditFormat::Csv => Format::Csv,
            };
            let Some(path) = output else {
                let stdout = std::io::stdout().lock();
                audit::export(&log, format, stdout).map_err(|error| unread(&error))?;
                return end(&log);
            };
            let written = std::fs::File::create(&path).and_then(|file| {
                let mut file = std::io::BufWriter::new(file);
                audit::export(&log, format, &mut file)?;
                file.flush()
            });
            written.map_err(|error| {
                Failure::usage(format!("could not write `{}`: {error}", path.display()))
            })?;
            end(&log)
        }
    }
}

/// A log that is not intact is an error, whatever the command was.
fn end(log: &AuditLog) -> Result<Exit, Failure> {
    match &log.verified.fault {
        Some(fault) => Err(audit::failure(&log.files, fault)),
        None => Ok(Exit::Done),
    }
}

fn verify(files: &AuditFiles) -> Result<Exit, Failure> {
    let verified = audit::verify(files, |_| {})?;
    if let Some(fault) = &verified.fault {
        return Err(audit::failure(files, fault));
    }
    let good = paint(GOOD, "ok", stdout_colours());
    let mut text = format!("{good} {}: {} records", files.session, verified.lines);
    if verified.behind_head > 0 {
        let _ = write!(
            text,
            "; {} of them newer than its head, for the process was killed",
            verified.behind_head
        );
    }
    print(&format!("{}\n", filter::code(&text)))?;
    Ok(Exit::Done)
}

fn verify_all(context: &Context) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for files in audit::all(context) {
        match verify(&files) {
            Ok(_) => {}
            Err(failure) => {
                exit = Exit::Failed;
                let bad = paint(BAD, "bad", stdout_colours());
                print(&format!("{bad} {}\n", filter::plain(&failure.message)))?;
            }
        }
    }
    Ok(exit)
}

/// The lines of a log in columns.
fn shown(log: &AuditLog, colours: bool) -> String {
    let width = log.lines.len().to_string().len();
    let mut text = String::new();
    for line in &log.lines {
        let (about, words, tone) = audit::words(&line.record);
        let time = line.time.get(..TIME).unwrap_or(&line.time);
        let style = match tone {
            Tone::Plain => DIM,
            Tone::Decision => HINT,
            Tone::Warning => WARN,
        };
        let about = paint(style, &format!("{about:<9}"), colours);
        let time = paint(DIM, &filter::plain(&time.replace('T', " ")), colours);
        let _ = writeln!(
            text,
            "{:>width$}  {time}  {about} {}",
            line.seq,
            filter::plain(&words)
        );
    }
    text
}
