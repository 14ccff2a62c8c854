//! Connections that a sandbox refused: noted in the cells that run, for the person and the model.

use std::future::Future;

use crate::kernel::files::KernelFiles;
use crate::kernel::routing::Table;

/// What is refused from now on, in words; never, where no cell runs that it can be told in, or where a sandbox lets
/// nothing or everything through. Cancel-safe.
pub(super) fn some<'a>(
    files: Option<&'a KernelFiles>,
    table: &Table,
) -> impl Future<Output = Vec<String>> + 'a + use<'a> {
    let gate = files.and_then(KernelFiles::gate);
    let gate = gate.filter(|_| !table.is_empty());
    async move {
        match gate {
            Some(gate) => gate.refusals().await,
            None => std::future::pending().await,
        }
    }
}

/// Notes what waits, before a cell can be over that caused it.
pub(super) fn tell_waiting(table: &mut Table, files: Option<&KernelFiles>) {
    if !table.is_empty()
        && let Some(gate) = files.and_then(KernelFiles::gate)
    {
        tell(table, &gate.take_refusals());
    }
}

pub(super) fn tell(table: &mut Table, words: &[String]) {
    for words in words {
        table.remark(words);
    }
}
