//! The program's log: lines on stderr, without secrets.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::kernel::Redactor;

/// Logs to stderr from now on: how much, `verbose` and `SPONDE_LOG` say.
pub(super) fn to_stderr(verbose: u8, redactor: &Redactor) {
    let default = match verbose {
        0 => "error",
        1 => "sponde=info",
        2 => "sponde=debug",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("SPONDE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let redactor = redactor.clone();
    // A second initialisation only happens in tests.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Redacted {
            redactor: redactor.clone(),
            to: io::stderr(),
        })
        .with_ansi(false)
        .try_init();
}

/// Takes whole lines.
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
