//! Widget messages and late outputs of a [`Kernel`].

use tokio::sync::{mpsc, oneshot};

use super::command::Command;
use super::late::Late;
use super::{Kernel, KernelError};
use crate::jupyter::content::Content;
use crate::jupyter::message::Channel;
use serde_json::{Value, json};

impl Kernel {
    /// Sends `data` on the comm `id`; the kernel takes it when it is idle.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn send_comm(&self, id: &str, data: Value) -> Result<(), KernelError> {
        // There is no reply.
        let (reply, _) = oneshot::channel();
        let content = Content::Other {
            msg_type: "comm_msg".to_owned(),
            content: json!({ "comm_id": id, "data": data }),
        };
        self.commands
            .send(Command::Ask {
                channel: Channel::Shell,
                content,
                reply,
            })
            .await
            .map_err(|_| KernelError::Closed)
    }

    /// Sends outputs of finished executions `to` this channel, until this life of the kernel ends: call it again after
    /// a restart. The latest call wins.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn send_late(&self, to: &mpsc::Sender<Late>) -> Result<(), KernelError> {
        let outputs = to.clone();
        self.commands
            .send(Command::Late { outputs })
            .await
            .map_err(|_| KernelError::Closed)
    }
}
