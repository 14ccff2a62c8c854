//! The program's log: on stderr at the level that a person wants, and in a file in the state directory. Secrets are
//! redacted in both.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

use super::log_file::LogFile;
use crate::kernel::Redactor;

/// The filter of the file.
const KEPT: &str = "warn,sponde=info";

/// Starts logging: to stderr as `verbose` and `SPONDE_LOG` say, and to a file below `state`.
pub(super) fn start(verbose: u8, redactor: &Redactor, state: Option<&Path>) {
    let default = match verbose {
        0 => "error",
        1 => "sponde=info",
        2 => "sponde=debug",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("SPONDE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let to = redactor.clone();
    let shown = fmt::layer()
        .with_ansi(false)
        .with_writer(move || Redacted {
            redactor: to.clone(),
            to: io::stderr(),
        })
        .with_filter(filter);
    let kept = state.map(|state| {
        let file = Arc::new(Mutex::new(LogFile::below(state)));
        let redactor = redactor.clone();
        fmt::layer()
            .with_ansi(false)
            .with_writer(move || Redacted {
                redactor: redactor.clone(),
                to: Shared(Arc::clone(&file)),
            })
            .with_filter(EnvFilter::new(KEPT))
    });
    // A second initialisation only happens in tests.
    let _ = tracing_subscriber::registry()
        .with(shown)
        .with(kept)
        .try_init();
}

/// The file, shared by all lines.
struct Shared(Arc<Mutex<LogFile>>);

impl Write for Shared {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        let line_with_process = [format!("[{process}] ").as_bytes(), line].concat();
        // An unwritable directory is not worth an error for each line.
        let _ = file.append(&line_with_process);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer that takes whole lines and redacts them.
struct Redacted<W> {
    redactor: Redactor,
    to: W,
}

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.to.write_all(self.redactor.all(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_secrets() {
        let redactor = Redactor::of([("MY_KEY", "hunter2-hunter3")]);
        let mut log = Redacted {
            redactor,
            to: Vec::new(),
        };
        log.write_all(b"asked https://u:pw@h with hunter2-hunter3\n")
            .unwrap();
        let text = String::from_utf8(log.to).unwrap();
        assert_eq!(text, "asked https://u:[redacted]@h with [redacted]\n");
    }
}
