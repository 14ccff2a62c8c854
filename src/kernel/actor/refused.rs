//! Connections that a sandbox refused: reported in the running cells, to the user and the model.

use std::future::Future;

use crate::kernel::files::KernelFiles;
use crate::kernel::routing::Table;

/// Waits for the next refusals, as text. Pending for ever if no cell runs or the sandbox has no gate. Cancel-safe.
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

/// Reports pending refusals before the cell that caused them can end.
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
