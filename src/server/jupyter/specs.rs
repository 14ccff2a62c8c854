//! Kernelspecs: the kernels that can be started, and their logos.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::download;
use super::super::extract::Path;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::Answer;
use crate::jupyter::kernelspec::InterruptMode;
use crate::kernel::KernelSource;

/// Logos that clients request, by their names in `resources`.
const LOGOS: [(&str, &str); 3] = [
    ("logo-32x32", "logo-32x32.png"),
    ("logo-64x64", "logo-64x64.png"),
    ("logo-svg", "logo-svg.svg"),
];
/// Maximum bytes of a logo.
const LOGO: u64 = 1 << 20;

/// All kernelspecs.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    let sources = shared.kernels.sources().await?;
    let usual = sources.first().map(|it| it.name.clone());
    let kernelspecs = sources
        .iter()
        .map(|source| (source.name.clone(), model(source)))
        .collect();
    let answer = SpecList {
        default: usual,
        kernelspecs,
    };
    Ok(axum::Json(answer).into_response())
}

/// One kernelspec.
pub(super) async fn one(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Answer {
    let source = find(&shared, &name).await?;
    Ok(axum::Json(model(&source)).into_response())
}

/// A logo. No other file of a kernelspec's directory is served: its scripts would run in the front end's page.
pub(super) async fn logo(
    State(shared): State<Arc<Shared>>,
    Path((name, file)): Path<(String, String)>,
) -> Answer {
    let source = find(&shared, &name).await?;
    let missing = || Problem::not_found(format!("`{name}` has no `{file}`"));
    if !LOGOS.iter().any(|(_, known)| *known == file) {
        return Err(missing().into());
    }
    let path = source.resource_dir.join(&file);
    let metadata = tokio::fs::metadata(&path).await.map_err(|_| missing())?;
    if metadata.len() > LOGO {
        return Err(missing().into());
    }
    let bytes = tokio::fs::read(&path).await.map_err(|_| missing())?;
    let length = bytes.len() as u64;
    let mime = download::mime_of(&file);
    let body = Body::from(bytes);
    Ok(download::of(
        body,
        0..length,
        length,
        StatusCode::OK,
        mime,
        &file,
    ))
}

async fn find(shared: &Shared, name: &str) -> Result<KernelSource, Problem> {
    let sources = shared.kernels.sources().await?;
    let found = sources.into_iter().find(|it| it.name == name);
    found.ok_or_else(|| Problem::not_found(format!("there is no kernel `{name}`")))
}

/// All kernelspecs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SpecList {
    /// The one of a kernel without a name.
    default: Option<String>,
    kernelspecs: BTreeMap<String, SpecModel>,
}

/// A kernelspec as clients see it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SpecModel {
    name: String,
    spec: Spec,
    /// Addresses of logos.
    resources: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Spec {
    argv: Vec<String>,
    /// Empty: values may be secrets, and a remote client does not need them.
    env: BTreeMap<String, String>,
    display_name: String,
    language: String,
    interrupt_mode: &'static str,
    metadata: Map<String, Value>,
}

fn model(source: &KernelSource) -> SpecModel {
    let name = &source.name;
    let resources = LOGOS
        .iter()
        .filter(|(_, file)| {
            !source.resource_dir.as_os_str().is_empty() && source.resource_dir.join(file).is_file()
        })
        .map(|(key, file)| {
            let url = format!("/jupyter/kernelspecs/{name}/{file}");
            (*key, url)
        })
        .collect();
    SpecModel {
        name: name.clone(),
        spec: Spec {
            argv: source.spec.argv.clone(),
            env: BTreeMap::new(),
            display_name: source.spec.display_name.clone(),
            language: source.spec.language.clone(),
            interrupt_mode: match source.spec.interrupt_mode {
                InterruptMode::Signal => "signal",
                InterruptMode::Message => "message",
            },
            metadata: source.spec.metadata.clone(),
        },
        resources,
    }
}
