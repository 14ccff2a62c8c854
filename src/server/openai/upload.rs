//! Files of a form into a container.

use std::io;

use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest as _, Request};
use futures_util::StreamExt as _;

use super::super::files::write;
use super::super::problem::Problem;
use crate::app::containers::{ContainerFile, Containers};

/// Writes at most `most` files of a form, and says which.
pub(super) async fn write_form_file(
    containers: &Containers,
    id: &str,
    request: Request,
    most: usize,
) -> Result<Vec<ContainerFile>, Problem> {
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|rejection| {
        Problem::bad_request(format!("this is not a form: {}", rejection.body_text()))
            .hint("send the file as multipart/form-data")
    })?;
    let broken = |error: MultipartError| {
        Problem::bad_request(format!("the form cannot be read: {}", error.body_text()))
    };
    let mut written = Vec::new();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let Some(name) = field.file_name().map(str::to_owned) else {
            continue;
        };
        if written.len() >= most {
            let message = format!("{most} files are the most for one request");
            return Err(Problem::bad_request(message));
        }
        let (path, place) = containers.place(id, &name).await?;
        let pieces = field.map(|piece| piece.map_err(io::Error::other));
        write(place, pieces).await?;
        written.push(containers.uploaded(id, &path).await?);
    }
    Ok(written)
}
