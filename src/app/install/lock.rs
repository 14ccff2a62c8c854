//! One installer at a time, of all processes of this person: pip, uv and npm do not expect another in the same directory.
//!
//! The system drops the lock when its process ends, however it ends. Beside it, a marker says that the second step of the
//! private Python environment began and did not end.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::app::Context;
use crate::error::{Failure, FailureKind};

/// How long to wait for another installer: it may compile a kernel.
const WITHIN: Duration = Duration::from_mins(40);
/// How long a process may take from its start to the lock.
const BEGINS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(200);

/// The lock of an installer, until it is dropped. Says so if it has to wait.
///
/// # Errors
/// The data directory cannot be written, or another installer does not come to its end.
pub async fn lock(context: &Context) -> Result<File, Failure> {
    let path = path(context);
    let failed = |error: std::io::Error| {
        Failure::new(
            FailureKind::Failed,
            format!("could not write `{}`: {error}", path.display()),
        )
    };
    std::fs::create_dir_all(&context.paths.data).map_err(failed)?;
    // Not truncated: another may hold it.
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    if file.try_lock().is_ok() {
        return Ok(file);
    }
    let minutes = WITHIN.as_secs() / 60;
    context.notify.info(format!(
        "another installation by Sponde is running: waiting for it, at most {minutes} minutes"
    ));
    let end = Instant::now() + WITHIN;
    while Instant::now() < end {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        sleep(PAUSE).await;
    }
    let message = format!("another installation did not end within {minutes} minutes");
    Err(Failure::new(FailureKind::Failed, message).hint(format!(
        "end the process that holds `{}`, or try again when it is done",
        path.display()
    )))
}

/// Whether the libraries that the Python kernel does not need to start are missing, and nobody installs them.
pub fn lacks_more(context: &Context) -> bool {
    more_marker(context).exists() && !is_held(context)
}

/// Notes that these libraries are to come.
pub fn wants_more(context: &Context) {
    let _ = std::fs::write(more_marker(context), "python3");
}

/// Notes that they are there.
pub(super) fn has_more(context: &Context) {
    let _ = std::fs::remove_file(more_marker(context));
}

/// Whether somebody installs them now.
pub(super) async fn installs_more(context: &Context) -> bool {
    let end = Instant::now() + BEGINS;
    while more_marker(context).exists() {
        if is_held(context) {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        sleep(PAUSE).await;
    }
    false
}

/// Waits until nobody installs, at most for `within`; returns whether that is so.
pub(super) async fn is_free(within: Duration, context: &Context) -> bool {
    let end = Instant::now() + within;
    while is_held(context) {
        if Instant::now() > end {
            return false;
        }
        sleep(PAUSE).await;
    }
    true
}

fn more_marker(context: &Context) -> PathBuf {
    context.paths.python_env().join("sponde-more")
}

fn path(context: &Context) -> PathBuf {
    context.paths.data.join("kernels.lock")
}

fn is_held(context: &Context) -> bool {
    File::open(path(context)).is_ok_and(|file| file.try_lock_shared().is_err())
}
