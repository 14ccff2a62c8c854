//! Pictures that the person named: a model that sees is shown them, scaled as those of outputs are.

use bytes::Bytes;

use super::{Edit, Session, random_cell_id};

/// Pictures of one question.
const MOST: usize = 8;

impl Session {
    /// Shows the model the pictures that were noted. A model that does not see got facts about them instead.
    pub(super) async fn show_pictures(&mut self) {
        let mut pictures = std::mem::take(&mut self.options.pictures);
        let Some(preparer) = self.asking.image_preparer.clone() else {
            return;
        };
        let wanted = pictures.len();
        pictures.truncate(MOST.min(preparer.rules().most));
        if pictures.is_empty() {
            return;
        }
        let shown = pictures.len();
        let read = tokio::task::spawn_blocking(move || {
            let read = pictures.iter().map(|picture| {
                let bytes = picture.read()?;
                // Decoded here, where it may take its time.
                preparer.see(&bytes)?;
                Some(Bytes::from(bytes))
            });
            let read: Vec<Option<Bytes>> = read.collect();
            (pictures, read)
        });
        let Ok((pictures, read)) = read.await else {
            return;
        };
        if wanted > shown {
            self.notice(&format!(
                "the model is shown the first {shown} of {wanted} pictures"
            ));
        }
        let (mut names, mut given) = (Vec::new(), Vec::new());
        for (picture, bytes) in pictures.into_iter().zip(read) {
            match bytes {
                Some(bytes) => {
                    names.push(picture.name);
                    given.push(bytes);
                }
                None => self.notice(&format!(
                    "the model cannot be shown {}: it is too large, damaged or gone",
                    picture.name
                )),
            }
        }
        if given.is_empty() {
            return;
        }
        let cell = random_cell_id();
        self.asking.budget.said.give(&cell, given);
        self.edit(Edit::Note {
            cell,
            text: format!(
                "[Pictures of the user, in this order: {}]",
                names.join(", ")
            ),
        });
    }
}
