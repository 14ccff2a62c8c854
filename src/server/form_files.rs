//! Stores the files of a form in a container.

use std::io;

use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest as _, Request};
use futures_util::StreamExt as _;

use super::files::write;
use super::problem::Problem;
use crate::app::containers::{ContainerFile, Containers};

/// Which part of a file's name is used.
#[derive(Debug, Clone, Copy)]
pub(super) enum Names {
    /// Only the file name: directories in it are the program's own.
    Bare,
    /// The whole path: directories are created.
    Paths,
}

/// The result for each file: its name, and the file or why it was not written.
pub(super) type Taken = Vec<(String, Result<ContainerFile, Problem>)>;

/// Writes at most `most` files of a form, and returns the result for each.
pub(super) async fn write_form_files(
    containers: &Containers,
    id: &str,
    request: Request,
    names: Names,
    most: usize,
) -> Result<Taken, Problem> {
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|rejection| {
        Problem::bad_request(format!("this is not a form: {}", rejection.body_text()))
            .hint("send the file as multipart/form-data")
    })?;
    let broken = |error: MultipartError| {
        Problem::bad_request(format!("the form cannot be read: {}", error.body_text()))
    };
    let mut taken = Vec::new();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let Some(name) = field.file_name().map(str::to_owned) else {
            continue;
        };
        if taken.len() >= most {
            let message = format!("{most} files are the most for one request");
            return Err(Problem::bad_request(message));
        }
        let written = write_field(containers, id, field, &name, names).await;
        taken.push((name, written));
    }
    Ok(taken)
}

async fn write_field(
    containers: &Containers,
    id: &str,
    field: Field<'_>,
    name: &str,
    names: Names,
) -> Result<ContainerFile, Problem> {
    let (path, place) = match names {
        Names::Bare => containers.place(id, name).await?,
        Names::Paths => containers.place_below(id, name).await?,
    };
    let pieces = field.map(|piece| piece.map_err(io::Error::other));
    write(place, pieces).await?;
    Ok(containers.uploaded(id, &path).await?)
}
