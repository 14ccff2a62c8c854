//! Outputs read from a notebook: nothing is merged, moved to files or cut, so that they are written back unchanged.

use super::{Item, Kept, Outputs, Rich, Text};
use crate::jupyter::nbformat::Output;

impl Outputs {
    /// Wraps the outputs of a notebook cell.
    pub fn from_notebook(outputs: Vec<Output>) -> Self {
        let mut kept = Kept::default();
        let items = outputs
            .into_iter()
            .map(|output| {
                let item = item(output);
                kept.add(item.kept());
                item
            })
            .collect();
        Self {
            items,
            kept,
            ..Self::default()
        }
    }
}

fn item(output: Output) -> Item {
    match output {
        Output::Stream { name, text, extra } if extra.is_empty() && name == "stdout" => {
            Item::Text(whole("stdout", text))
        }
        Output::Stream { name, text, extra } if extra.is_empty() && name == "stderr" => {
            Item::Text(whole("stderr", text))
        }
        output => Item::Rich(Box::new(Rich {
            kept: Kept::of(&output, None),
            output,
            display_id: None,
        })),
    }
}

fn whole(name: &'static str, shown: String) -> Text {
    Text {
        name,
        shown,
        carriage_return: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;
    use crate::jupyter::mime::MimeBundle;

    #[test]
    fn what_a_notebook_has_comes_back_as_it_was() {
        let mut odd = Output::stream("stdout", "x");
        if let Output::Stream { extra, .. } = &mut odd {
            extra.insert("later".to_owned(), json!(1));
        }
        let outputs = vec![
            Output::stream("stdout", "a\rb\u{8}"),
            Output::stream("stdout", "c"),
            Output::stream("", ""),
            odd,
            Output::error("E", "v", vec!["t".to_owned()]),
            Output::result(None, MimeBundle::text("1"), Map::new()),
            Output::Other(json!(7)),
        ];
        assert_eq!(
            Outputs::from_notebook(outputs.clone()).into_notebook(),
            outputs
        );
    }
}
