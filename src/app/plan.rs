//! A plan in words that a person approves once: a question is answered with a plan and no code, and the turn that carries the
//! plan out asks about risky code only.
//!
//! Every front end drives it alike: it sends what each step gives, runs the turn, and goes on with the next.

use crate::agent::Command;
use crate::agent::approval::Approval;

/// What a model is told before it plans.
const WANTED: &str = "Do not run code yet. First write a short numbered plan: what you will look at, which steps you will \
                      take, which files you will write or change, and how you will check the result. Then wait.";
/// What it is told with what is to be different.
const AGAIN: &str = "Write the plan anew. Do not run code yet.";
/// What it is told when the plan is approved.
const APPROVED: &str = "The plan is approved. Carry it out; if a step turns out to be wrong, say so and change the plan.";

/// A question as the person typed it, without what this module has added for the model.
pub fn as_typed(question: &str) -> &str {
    match question.trim_end() {
        APPROVED => "(the plan is approved)",
        text => text
            .strip_suffix(WANTED)
            .or_else(|| text.strip_suffix(AGAIN))
            .map_or(question, str::trim_end),
    }
}

/// A plan that waits for the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What holds outside of the plan.
    approval: Approval,
}

/// What a person says of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opinion {
    /// It is carried out.
    Approved,
    /// It is to be another one, for this reason.
    Changed(String),
}

impl Plan {
    /// Asks for a plan about `question`, where `approval` holds. Returns what to send.
    pub fn begin(question: &str, approval: Approval) -> (Self, Command) {
        let text = format!("{question}\n\n{WANTED}");
        (Self { approval }, Command::Submit { text })
    }

    /// What to send, in order, after the person has said what they think of the plan.
    pub fn decided(self, opinion: &Opinion) -> Vec<Command> {
        match opinion {
            Opinion::Approved => {
                let mut commands = self.approves(Approval::OnRisk);
                let text = APPROVED.to_owned();
                commands.push(Command::Submit { text });
                commands
            }
            Opinion::Changed(words) => {
                let text = format!("{words}\n\n{AGAIN}");
                vec![Command::Submit { text }]
            }
        }
    }

    /// What to send when the plan was carried out.
    pub fn ended(self) -> Vec<Command> {
        self.approves(self.approval)
    }

    /// Nothing changes for a person who is asked less often anyway.
    fn approves(self, approval: Approval) -> Vec<Command> {
        match self.approval {
            Approval::Always => vec![Command::SetApproval { approval }],
            Approval::OnRisk | Approval::Never => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_approved_once() {
        let (plan, asked) = Plan::begin("clean the table", Approval::Always);
        let Command::Submit { text } = asked else {
            panic!("{asked:?}");
        };
        assert!(
            text.starts_with("clean the table\n\nDo not run code yet."),
            "{text}"
        );
        assert_eq!(as_typed(&text), "clean the table");
        assert_eq!(as_typed("why? "), "why? ");
        assert_eq!(as_typed(APPROVED), "(the plan is approved)");
        let changed = plan.decided(&Opinion::Changed("keep the dates".to_owned()));
        assert!(
            matches!(&*changed, [Command::Submit { text }] if text.starts_with("keep the dates\n"))
        );
        let on_risk = Command::SetApproval {
            approval: Approval::OnRisk,
        };
        let always = Command::SetApproval {
            approval: Approval::Always,
        };
        let approved = plan.decided(&Opinion::Approved);
        assert_eq!(approved.first(), Some(&on_risk));
        assert!(matches!(approved.last(), Some(Command::Submit { .. })));
        assert_eq!(plan.ended(), [always]);
        // Who is asked less often already goes on so.
        for approval in [Approval::OnRisk, Approval::Never] {
            let (plan, _) = Plan::begin("x", approval);
            assert_eq!(plan.decided(&Opinion::Approved).len(), 1);
            assert_eq!(plan.ended(), []);
        }
    }
}
