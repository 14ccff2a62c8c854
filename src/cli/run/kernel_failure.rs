//! A kernel that could not be used, as a failure of the program.

use crate::app::remote_kernels;
use crate::error::{Failure, FailureKind};
use crate::kernel::KernelError;

/// A kernel that could not be used, with what its process wrote.
pub(in crate::cli) fn kernel_failure(error: &KernelError) -> Failure {
    if let KernelError::Gateway { error, .. } = error {
        return remote_kernels::failure(error);
    }
    let log = error.log().map(str::to_owned);
    let hint = if log
        .as_deref()
        .is_some_and(|log| log.contains("No module named"))
    {
        "install it with `sponde kernels install python3`, or choose another from `sponde kernels`"
    } else {
        "`sponde doctor` checks the kernel"
    };
    let last = log
        .as_deref()
        .map(|log| log.lines().rev().take(12).collect::<Vec<_>>());
    let log = last.map(|lines| lines.into_iter().rev().collect::<Vec<_>>().join("\n"));
    Failure::new(FailureKind::Kernel, error.to_string())
        .details(log.as_deref())
        .hint(hint)
}
