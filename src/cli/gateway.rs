//! `--gateway`: kernels of a Jupyter server instead of this machine's.
//!
//! The token comes from the environment, or with the URL as Jupyter prints it; it is never shown.

use std::path::PathBuf;

use serde_json::json;

use super::args::GatewayArgs;
use super::style::{NAME, WARN, paint, stderr_colours, stdout_colours};
use super::{Context, eprint, filter, print};
use crate::error::{Exit, Failure};
use crate::kernel::gateway::{AUTH_SCHEME, Gateway, GatewayError, RemoteSpec, RemoteSpecs};
use crate::kernel::{GatewayOptions, KernelError, KernelSource};

/// Where the token is looked for, the first that is set counts. The second is Jupyter's own name.
const TOKENS: [&str; 2] = ["SPONDE_GATEWAY_TOKEN", "JUPYTER_GATEWAY_AUTH_TOKEN"];
/// Jupyter's own name for the scheme.
const SCHEME: &str = "JUPYTER_GATEWAY_AUTH_SCHEME";

/// The gateway that is named in the arguments, the environment or the configuration; an empty name is none.
pub(super) fn named(
    args: &GatewayArgs,
    context: &Context,
) -> Result<Option<GatewayOptions>, Failure> {
    let url = args.gateway.as_ref().or(context.config.gateway.as_ref());
    let Some(url) = url.filter(|url| !url.trim().is_empty()) else {
        return Ok(None);
    };
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let token = TOKENS.into_iter().find_map(set);
    let mut options = GatewayOptions::parse(url, token).map_err(|error| Failure {
        exit: Exit::Usage,
        ..failure(&error)
    })?;
    options.auth_scheme = set(SCHEME).unwrap_or_else(|| AUTH_SCHEME.to_owned());
    Ok(Some(options))
}

/// A gateway that has said which kernels it has.
pub(super) struct Far {
    options: GatewayOptions,
    gateway: Gateway,
    specs: RemoteSpecs,
}

/// Asks the gateway that is named, if one is, for its kernels.
pub(super) async fn open(args: &GatewayArgs, context: &Context) -> Result<Option<Far>, Failure> {
    let Some(options) = named(args, context)? else {
        return Ok(None);
    };
    ask(options).await.map(Some)
}

impl Far {
    /// Where it is and how to be let in.
    pub(super) fn options(&self) -> GatewayOptions {
        self.options.clone()
    }

    /// All its kernels.
    pub(super) fn all(&self) -> Vec<KernelSource> {
        self.specs.specs.iter().cloned().map(source).collect()
    }

    /// Its kernel called `name`, or one of that language, or its default one.
    pub(super) fn find(
        &self,
        name: Option<&str>,
        language: Option<&str>,
    ) -> Result<KernelSource, Failure> {
        let same = || self.of_language(language?);
        match (self.specs.clone().find(name, &self.gateway), same()) {
            (Ok(found), _) => Ok(source(found)),
            (Err(GatewayError::NoSuchSpec { name, .. }), Some(same)) => {
                let text = format!(
                    "note: the gateway has no kernel `{name}`; using `{}`\n",
                    same.name
                );
                eprint(&paint(WARN, &filter::plain(&text), stderr_colours()));
                Ok(same)
            }
            (Err(error), _) => Err(failure(&error)),
        }
    }

    /// Its kernel for a cell of another language than the notebook's: the one it ran in, else one for its language.
    pub(super) fn for_cell(
        &self,
        name: Option<&str>,
        language: &str,
    ) -> Result<KernelSource, KernelError> {
        let of = |source: &KernelSource| source.spec.language.eq_ignore_ascii_case(language);
        self.all()
            .into_iter()
            .find(|source| Some(source.name.as_str()) == name && of(source))
            .or_else(|| self.of_language(language))
            .ok_or_else(|| KernelError::Prepare {
                kernel: name.unwrap_or(language).to_owned(),
                reason: format!(
                    "a cell of the notebook needs it, and gateway {} has no kernel for {language}",
                    self.options.url
                ),
            })
    }

    fn of_language(&self, language: &str) -> Option<KernelSource> {
        self.all()
            .into_iter()
            .find(|source| source.spec.language.eq_ignore_ascii_case(language))
    }
}

fn source(found: RemoteSpec) -> KernelSource {
    KernelSource {
        name: found.name,
        spec: found.spec,
        // Those are the server's.
        resource_dir: PathBuf::new(),
        prefix: None,
    }
}

/// Lists its kernels.
pub(super) async fn list(options: GatewayOptions, as_json: bool) -> Result<Exit, Failure> {
    let Far { options, specs, .. } = ask(options).await?;
    if as_json {
        let kernels: Vec<_> = specs
            .specs
            .iter()
            .map(|found| json!({"name": found.name, "gateway": options.url.as_str(), "spec": found.spec}))
            .collect();
        let text = serde_json::to_string_pretty(&kernels).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    let width = specs.specs.iter().map(|found| found.name.len()).max();
    let width = width.unwrap_or_default();
    for found in &specs.specs {
        let name = filter::plain(&format!("{:width$}", found.name));
        let default = if specs.default.as_ref() == Some(&found.name) {
            "; its default"
        } else {
            ""
        };
        let line = format!("{}  ({}{default})\n", options.url, found.spec.display_name);
        let name = paint(NAME, &name, stdout_colours());
        print(&format!("{name}  {}", filter::plain(&line)))?;
    }
    Ok(Exit::Done)
}

/// What to tell a person about it.
pub(super) fn failure(error: &GatewayError) -> Failure {
    let failure = Failure::new(Exit::Kernel, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

async fn ask(options: GatewayOptions) -> Result<Far, Failure> {
    let gateway = Gateway::new(options.clone()).map_err(|error| failure(&error))?;
    let specs = gateway
        .kernelspecs()
        .await
        .map_err(|error| failure(&error))?;
    Ok(Far {
        options,
        gateway,
        specs,
    })
}
