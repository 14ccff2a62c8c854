//! Outputs that name no execution in the table: of finished cells, and cells' output sent under the name of an aside.

use tokio::sync::OwnedSemaphorePermit;

use super::{Stray, Table};
use crate::jupyter::message::{Channel, Message};
use crate::kernel::execution::{ExecutionEvent, OutputEvent};

impl Table {
    /// Gives a cell its output that came under the name of a running aside.
    pub(super) fn give_back(
        &mut self,
        message: &mut Message,
        permit: Option<&mut OwnedSemaphorePermit>,
    ) {
        let parent = message.parent_id();
        let mut entries = self.entries.iter_mut();
        let aside = entries
            .find(|entry| Some(entry.id.as_str()) == parent)
            .and_then(|entry| entry.aside.as_mut());
        let Some(output) = aside.and_then(|aside| aside.take_stray(&mut message.content)) else {
            return;
        };
        let permit = permit.and_then(|permit| {
            let most = permit.num_permits();
            permit.split(match &output {
                OutputEvent::Stream(stream) => stream.text.len().min(most),
                _ => most,
            })
        });
        self.tell_cell(output, permit);
    }

    /// Sends an output that named no cell to the running one, or to the one that finished last.
    fn tell_cell(&mut self, mut output: OutputEvent, permit: Option<OwnedSemaphorePermit>) {
        if self.quirks.ansi_in_plain {
            output.strip_plain();
        }
        let mut entries = self.entries.iter();
        if let Some(entry) = entries.find(|entry| entry.aside.is_none() && entry.started) {
            let _ = entry.events.send((ExecutionEvent::Output(output), permit));
        } else if let Some(cell) = self.late.latest().map(str::to_owned) {
            let bytes = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            self.late.tell(&cell, output, bytes);
        }
    }

    /// Handles a message without a parent in the table: output of a finished cell, or not for us.
    pub(super) fn late(
        &mut self,
        channel: Channel,
        message: Message,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<(), Stray> {
        let execution = message.parent_id().unwrap_or_default();
        let is_cell = self.late.knows(execution);
        let is_output = channel == Channel::IoPub
            && (is_cell || self.late.knows_aside(execution))
            && OutputEvent::is_output(&message.content);
        if !is_output {
            return Err((Box::new(message), permit));
        }
        if !is_cell {
            if let Some(output) = OutputEvent::from_content(message.content) {
                self.tell_cell(output, permit);
            }
            return Ok(());
        }
        let execution = execution.to_owned();
        if let Some(mut output) = OutputEvent::from_content(message.content) {
            if self.quirks.ansi_in_plain {
                output.strip_plain();
            }
            let bytes = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            self.late.tell(&execution, output, bytes);
        }
        Ok(())
    }
}
