//! Performs a turn's effects and the inputs they cause, until nothing is left to do immediately.

use std::collections::VecDeque;

use super::{Effect, Input};

/// A turn, and the performer of its effects.
pub(in crate::agent) trait Drive {
    /// The effects of `input`.
    fn step(&mut self, input: Input) -> Vec<Effect>;

    /// Performs an effect. It may return an input at once: a cell without a kernel is over before it ran.
    async fn perform(&mut self, effect: Effect) -> Option<Input>;
}

/// Feeds `input` to the turn. Two effects of one step can each cause an input: both are fed in order.
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

    /// Answers a question with two cells, each of which causes an input.
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
