//! Performs a turn's effects, and what they lead to, until there is nothing more to do at once.

use std::collections::VecDeque;

use super::{Effect, Input};

/// A turn and what performs its effects.
pub(in crate::agent) trait Drive {
    /// What `input` asks for.
    fn step(&mut self, input: Input) -> Vec<Effect>;

    /// Does it. An effect can end at once with an input of its own: a cell without a kernel is over before it ran.
    async fn perform(&mut self, effect: Effect) -> Option<Input>;
}

/// Gives `input` to the turn. Two effects of one step can each lead to an input: both are given to it, in order.
pub(in crate::agent) async fn drive(turn: &mut impl Drive, input: Input) {
    let mut inputs = VecDeque::from([input]);
    while let Some(input) = inputs.pop_front() {
        for effect in turn.step(input) {
            inputs.extend(turn.perform(effect).await);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Drive, Effect, Input, drive};

    /// Answers a question with two cells, and each of them with an input.
    #[derive(Default)]
    struct TwoCells {
        inputs: Vec<Input>,
    }

    fn own(cell: &str) -> Input {
        Input::RunOwn {
            cell: cell.to_owned(),
        }
    }

    impl Drive for TwoCells {
        fn step(&mut self, input: Input) -> Vec<Effect> {
            let execute = |cell: &str| Effect::Execute {
                cell: cell.to_owned(),
            };
            let effects = match input {
                Input::Submit => vec![execute("a"), execute("b")],
                _ => Vec::new(),
            };
            self.inputs.push(input);
            effects
        }

        async fn perform(&mut self, effect: Effect) -> Option<Input> {
            match effect {
                Effect::Execute { cell } => Some(own(&cell)),
                _ => None,
            }
        }
    }

    #[tokio::test]
    async fn inputs_of_two_effects_of_a_step_are_both_taken() {
        let mut turn = TwoCells::default();
        drive(&mut turn, Input::Submit).await;
        assert_eq!(turn.inputs, [Input::Submit, own("a"), own("b")]);
    }
}
