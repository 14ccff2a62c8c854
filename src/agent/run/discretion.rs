//! Removes secrets from variables' values: passwords that a person typed, and variables with secret-like names.

use crate::agent::facts::is_secret;
use crate::session::compaction::{Inventory, Variables};

/// The passwords typed in a session, only in memory.
#[derive(Default)]
pub(super) struct Passwords(Vec<String>);

/// How many are remembered, and their minimum length in bytes: removing shorter ones would garble ordinary words.
const MOST: usize = 64;
const LEAST: usize = 4;

impl Passwords {
    /// Records a typed password.
    pub(super) fn keep(&mut self, password: &str) {
        if password.len() >= LEAST && self.0.len() < MOST && !self.0.iter().any(|it| it == password)
        {
            self.0.push(password.to_owned());
        }
    }

    /// Removes secrets from the beginnings of values.
    pub(super) fn blot(&self, inventories: &mut [Inventory]) {
        for inventory in inventories {
            let Variables::Listed(variables) = &mut inventory.variables else {
                continue;
            };
            for variable in variables {
                let holds_one = self.0.iter().any(|it| variable.head.contains(it));
                if holds_one || is_secret(&variable.name) {
                    "(not shown)".clone_into(&mut variable.head);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Variable;

    #[test]
    fn secrets_are_not_told() {
        let variable = |name: &str, head: &str| Variable {
            name: name.to_owned(),
            kind: "str".to_owned(),
            shape: String::new(),
            head: head.to_owned(),
            bytes: None,
        };
        let mut passwords = Passwords::default();
        passwords.keep("hunter22");
        passwords.keep("a");
        let mut all = [Inventory {
            language: "python".to_owned(),
            variables: Variables::Listed(vec![
                variable("answer", "'hunter22'"),
                variable("api_key", "'sk-1'"),
                variable("db_pwd", "'x'"),
                variable("city", "'Aachen'"),
            ]),
        }];
        passwords.blot(&mut all);
        let lines = all[0].lines(1000);
        assert_eq!(
            lines,
            "answer: str = (not shown)\napi_key: str = (not shown)\ndb_pwd: str = (not shown)\ncity: str = 'Aachen'\n"
        );
    }
}
