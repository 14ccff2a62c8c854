//! Settings that a person can change while a session runs, in a chat or at a question: the kernel that `!CODE` goes
//! to, and whether they are asked before code runs.

use std::fmt::Write as _;

use crate::agent::approval::Approval;
use crate::agent::{Command, KernelOffer, tools};
use crate::cli::line::{Control, HELP};
use crate::cli::{eprint, filter};

/// The current settings.
pub(in crate::cli) struct Controls {
    /// The kernels that code can be sent to, the main one first.
    pub(in crate::cli) kernels: Vec<KernelOffer>,
    /// Index of the kernel that `!CODE` goes to.
    own: usize,
    /// When a person is asked.
    pub(in crate::cli) approval: Approval,
}

impl Controls {
    /// For a session that begins.
    pub(in crate::cli) fn new(kernels: Vec<KernelOffer>, approval: Approval) -> Self {
        Self {
            kernels,
            own: 0,
            approval,
        }
    }

    /// The kernel that `!CODE` goes to.
    pub(in crate::cli) fn own_kernel(&self) -> Option<&KernelOffer> {
        self.kernels.get(self.own)
    }

    /// Sends `!CODE` to this kernel from now on; without a name, prints the kernels.
    fn choose_kernel(&mut self, name: Option<&str>) {
        let found = name.map(|name| tools::find_language(name, &self.kernels));
        if let (Some(None), Some(name)) = (found, name) {
            eprint(&filter::plain(&format!("there is no kernel `{name}`\n")));
        }
        self.own = found.flatten().unwrap_or(self.own);
        eprint(&filter::plain(&self.list()));
    }

    /// Sets when to ask, if `wanted`; prints the setting. Returns whether it changed.
    fn approve(&mut self, wanted: Option<Approval>) -> bool {
        let before = self.approval;
        self.approval = wanted.unwrap_or(before);
        eprint(match self.approval {
            Approval::Always => {
                "you are asked before code of the model runs; /approve on-risk or /approve never changes that\n"
            }
            Approval::OnRisk => {
                "you are asked before code of the model runs that may do what the sandbox does not stop; /approve \
                 always or /approve never changes that\n"
            }
            Approval::Never => {
                "code of the model runs without a question; /approve always or /approve on-risk changes that\n"
            }
        });
        self.approval != before
    }

    /// Carries out a control, and returns the resulting command for the agent, if any.
    pub(in crate::cli) fn handle(&mut self, control: Control) -> Option<Command> {
        match control {
            Control::Kernel(name) => self.choose_kernel(name.as_deref()),
            Control::Approve(wanted) => {
                if self.approve(wanted) {
                    let approval = self.approval;
                    return Some(Command::SetApproval { approval });
                }
            }
            Control::Help => eprint(HELP),
            Control::Interrupt => return Some(Command::Interrupt),
            Control::Restart => return Some(Command::RestartKernel),
            Control::Wrong(words) => eprint(&filter::plain(&format!("{words}\n"))),
            Control::Nothing => {}
        }
        None
    }

    /// One line per kernel.
    fn list(&self) -> String {
        let mut text = String::new();
        for (index, offer) in self.kernels.iter().enumerate() {
            let mark = if index == self.own { '>' } else { ' ' };
            let _ = writeln!(text, "{mark} {} ({})", offer.kernel, offer.language);
        }
        text
    }
}
