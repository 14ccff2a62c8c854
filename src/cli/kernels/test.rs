//! `sponde kernels test`: runs the behaviour probe for one kernel or all; prints lines, Markdown or JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::app::kernels::{find_kernel, launch_options};
use crate::app::sandbox::{self, CodeOf};
use crate::cli::args::{ProbeArgs, SandboxArgs};
use crate::cli::exit::Exit;
use crate::cli::style::{BAD, DIM, GOOD, NAME, WARN, paint, stdout_colours};
use crate::cli::{Context, eprint, filter, print};
use crate::error::{Failure, FailureKind};
use crate::kernel::probe::{Check, Grade, Report, probe};
use crate::kernel::{KernelError, KernelSource, LaunchOptions};

/// Probes one kernel after the other: in parallel they would slow each other down.
pub(super) async fn test(args: ProbeArgs, context: &Context) -> Result<Exit, Failure> {
    let sources = if args.all {
        all(context)
    } else {
        args.names
            .iter()
            .map(|name| find_kernel(Some(name), context))
            .collect::<Result<_, _>>()?
    };
    if sources.is_empty() {
        return Err(Failure::usage("no kernel was named")
            .hint("name one of `sponde kernels`, or test `--all`"));
    }
    // Files that the cells write must not end up in the person's directory.
    let place = place()?;
    let mut reports = Vec::new();
    let mut dead = 0_u32;
    for source in sources {
        let name = source.name.clone();
        match one(source, &place, &args.sandbox, context).await {
            Ok(report) => {
                if !args.json && !args.markdown {
                    print(&lines(&report))?;
                }
                reports.push(report);
            }
            Err(error) => {
                dead += 1;
                eprint(&format!("{name}: {}\n", filter::plain(&error.to_string())));
                for line in error.log().unwrap_or_default().lines() {
                    eprint(&format!("  {}\n", filter::plain(line)));
                }
            }
        }
    }
    let _ = std::fs::remove_dir_all(&place);
    if args.json {
        let text = serde_json::to_string_pretty(&reports).unwrap_or_default();
        print(&format!("{text}\n"))?;
    } else if args.markdown {
        print(&markdown(&reports))?;
    }
    let any_bad = reports
        .iter()
        .flat_map(|report| &report.rows)
        .any(|row| row.finding.grade == Grade::Bad);
    Ok(match (dead, any_bad) {
        (1.., _) => Exit::Kernel,
        (0, true) => Exit::Failed,
        (0, false) => Exit::Done,
    })
}

/// The first usable kernel of each name.
fn all(context: &Context) -> Vec<KernelSource> {
    let mut seen = BTreeSet::new();
    context
        .paths
        .kernels()
        .list()
        .into_iter()
        .filter(|kernel| !kernel.name.contains('/'))
        .filter_map(|kernel| kernel.source.ok())
        .filter(|source| seen.insert(source.name.clone()))
        .collect()
}

fn place() -> Result<std::path::PathBuf, Failure> {
    let place = std::env::temp_dir().join(format!("sponde-probe-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&place).map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("could not make `{}`: {error}", place.display()),
        )
    })?;
    Ok(place)
}

async fn one(
    source: KernelSource,
    place: &Path,
    args: &SandboxArgs,
    context: &Context,
) -> Result<Report, KernelError> {
    let name = source.name.clone();
    eprint(&format!("{name}: start\n"));
    let sandbox = sandbox::sandbox(&args.settings(), CodeOf::Person, place, &[], context).await;
    let options = LaunchOptions {
        sandbox: sandbox.map_err(|failure| KernelError::Prepare {
            kernel: name.clone(),
            reason: failure.message,
        })?,
        ..launch_options(source, place.to_owned(), context)
    };
    probe(options, |check: Check| {
        eprint(&format!("{name}: {}\n", check.title()));
    })
    .await
}

fn lines(report: &Report) -> String {
    let colours = stdout_colours();
    let mut text = format!(
        "{}  {}, {}, protocol {}, ready in {:.1} s\n",
        paint(NAME, &report.kernel, colours),
        filter::plain(&report.implementation),
        filter::plain(&report.language),
        filter::plain(&report.protocol),
        f64::from(u32::try_from(report.ready_ms).unwrap_or(u32::MAX)) / 1000.0,
    );
    let width = Check::ALL.map(|check| check.title().len());
    let width = width.into_iter().max().unwrap_or_default();
    for row in &report.rows {
        let (word, style) = match row.finding.grade {
            Grade::Good => ("good   ", GOOD),
            Grade::Limited => ("limited", WARN),
            Grade::Bad => ("bad    ", BAD),
            Grade::Skipped => ("-      ", DIM),
        };
        let _ = writeln!(
            text,
            "  {}  {:width$}  {}",
            paint(style, word, colours),
            row.check.title(),
            filter::plain(&row.finding.observed),
        );
        for line in row.finding.detail.iter().flat_map(|detail| detail.lines()) {
            let line = format!("           {:width$}  {}", "", filter::plain(line));
            let _ = writeln!(text, "{}", paint(DIM, line.trim_end(), colours));
        }
    }
    text
}

/// One row per check, one column per kernel.
fn markdown(reports: &[Report]) -> String {
    let mut text = String::from("| |");
    for report in reports {
        let _ = write!(text, " **{}** |", report.kernel);
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(reports.len()));
    text.push_str("\n| implementation |");
    for report in reports {
        let _ = write!(text, " {} |", escaped(&report.implementation));
    }
    text.push('\n');
    for (n, check) in Check::ALL.iter().enumerate() {
        let _ = write!(text, "| {} |", check.title());
        for report in reports {
            let Some(row) = report.rows.get(n) else {
                continue;
            };
            let mark = match row.finding.grade {
                Grade::Good | Grade::Skipped => "",
                Grade::Limited => "*limited:* ",
                Grade::Bad => "**bad:** ",
            };
            let _ = write!(text, " {mark}{} |", escaped(&row.finding.observed));
        }
        text.push('\n');
    }
    text
}

fn escaped(text: &str) -> String {
    filter::plain(text).replace('|', "\\|")
}
