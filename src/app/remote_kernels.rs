//! `--gateway`: uses kernels of a Jupyter server instead of this machine's.
//!
//! The token comes from the environment, or with the URL as Jupyter prints it; it is never shown.

use std::path::PathBuf;

use super::{Context, Notify};
use crate::error::{Failure, FailureKind};
use crate::kernel::gateway::{AUTH_SCHEME, Gateway, GatewayError, RemoteSpec, RemoteSpecs};
use crate::kernel::{GatewayOptions, KernelError, KernelSource};

/// Variables with the token; the first one that is set is used. The second is Jupyter's own name.
const TOKENS: [&str; 2] = ["SPONDE_GATEWAY_TOKEN", "JUPYTER_GATEWAY_AUTH_TOKEN"];
/// Jupyter's own variable for the scheme.
const SCHEME: &str = "JUPYTER_GATEWAY_AUTH_SCHEME";

/// The gateway named in the arguments, the environment or the configuration; an empty name means none.
pub fn named(url: Option<&str>, context: &Context) -> Result<Option<GatewayOptions>, Failure> {
    let url = url.or(context.config.gateway.as_deref());
    let Some(url) = url.filter(|url| !url.trim().is_empty()) else {
        return Ok(None);
    };
    let set = |name: &str| context.paths.environment.get(name).map(str::to_owned);
    let token = TOKENS.into_iter().find_map(set);
    let mut options = GatewayOptions::parse(url, token).map_err(|error| Failure {
        kind: FailureKind::Usage,
        ..failure(&error)
    })?;
    options.auth_scheme = set(SCHEME).unwrap_or_else(|| AUTH_SCHEME.to_owned());
    Ok(Some(options))
}

/// A gateway and its list of kernels.
#[derive(Debug, Clone)]
pub struct RemoteKernels {
    options: GatewayOptions,
    gateway: Gateway,
    specs: RemoteSpecs,
    notify: Notify,
}

/// Asks the named gateway, if any, for its kernels.
pub async fn open(url: Option<&str>, context: &Context) -> Result<Option<RemoteKernels>, Failure> {
    let Some(options) = named(url, context)? else {
        return Ok(None);
    };
    ask(options, &context.notify).await.map(Some)
}

impl RemoteKernels {
    /// Its address and credentials.
    pub fn options(&self) -> GatewayOptions {
        self.options.clone()
    }

    /// The kernelspecs that it reports.
    pub fn specs(&self) -> &RemoteSpecs {
        &self.specs
    }

    /// All its kernels.
    pub fn all(&self) -> Vec<KernelSource> {
        self.specs.specs.iter().cloned().map(source).collect()
    }

    /// Its kernel called `name`, or one for that language, or its default one.
    pub fn find(
        &self,
        name: Option<&str>,
        language: Option<&str>,
    ) -> Result<KernelSource, Failure> {
        let same = || self.of_language(language?);
        match (self.specs.clone().find(name, &self.gateway), same()) {
            (Ok(found), _) => Ok(source(found)),
            (Err(GatewayError::NoSuchSpec { name, .. }), Some(same)) => {
                self.notify.warning(format!(
                    "the gateway has no kernel `{name}`; using `{}`",
                    same.name
                ));
                Ok(same)
            }
            (Err(error), _) => Err(failure(&error)),
        }
    }

    /// Its kernel for a cell in another language than the notebook's: the one it ran in, otherwise one for its
    /// language.
    pub fn for_cell(
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
        // Resources are on the server.
        resource_dir: PathBuf::new(),
        prefix: None,
    }
}

/// The failure shown for it.
pub fn failure(error: &GatewayError) -> Failure {
    let failure = Failure::new(FailureKind::Kernel, error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Asks a gateway for its kernels.
///
/// # Errors
/// It cannot be reached, or rejects the request.
pub async fn ask(options: GatewayOptions, notify: &Notify) -> Result<RemoteKernels, Failure> {
    let gateway = Gateway::new(options.clone()).map_err(|error| failure(&error))?;
    let specs = gateway
        .kernelspecs()
        .await
        .map_err(|error| failure(&error))?;
    Ok(RemoteKernels {
        options,
        gateway,
        specs,
        notify: notify.clone(),
    })
}
