//! Tenants of a server: each has its own key, directory, sessions and kernels, and cannot see the others.
//!
//! The key file is TOML with one table per tenant. It contains digests, so reading it does not reveal the keys.
//!
//! Invariants: a tenant has no access to sessions, records or directories of another one, or to what the server's own
//! person set up for themselves (databases, packages that code asks for).

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::sandbox::{CodeOf, sandbox};
use super::{Context, SessionSettings};
use crate::agent::install::InstallPolicy;
use crate::config::databases::DatabaseName;
use crate::error::{Failure, FailureKind};
use crate::kernel::Sandbox;
use crate::kernel::sandbox::probe::Tier;

/// Maximum bytes of a key file.
const LARGEST: u64 = 1 << 20;
/// Maximum characters of a tenant's name.
const LONGEST_NAME: usize = 40;

/// The permissions of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// View sessions, notebooks and files.
    Read,
    /// Also run code and change files.
    Run,
    /// Also ask a model, which costs the server's person money.
    Ask,
}

impl Scope {
    /// The name in the key file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Ask => "ask",
        }
    }
}

/// A tenant, from the key file.
#[derive(Debug, Clone, PartialEq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// SHA-256 of its key, in hexadecimal.
    pub digest: String,
    entry: Entry,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    /// `sha256:` and the digest.
    key: String,
    #[serde(default = "everything")]
    scope: Scope,
    /// The directory of its sessions; relative to the server's directory. Defaults to its name.
    directory: Option<PathBuf>,
    /// Maximum sessions at a time.
    max_sessions: Option<usize>,
    /// Limit of the cost of one session in US dollars.
    max_cost: Option<f64>,
    /// Databases of config.toml that its sessions get.
    #[serde(default)]
    databases: Vec<DatabaseName>,
}

fn everything() -> Scope {
    Scope::Ask
}

impl Tenant {
    /// The permissions of its key.
    pub fn scope(&self) -> Scope {
        self.entry.scope
    }

    /// Maximum sessions at a time, if the file sets it.
    pub fn max_sessions(&self) -> Option<usize> {
        self.entry.max_sessions
    }

    /// The directory of its sessions, without links; created if necessary. `root` is the server's directory.
    ///
    /// # Errors
    /// It cannot be created or used.
    pub fn directory(&self, root: &Path) -> Result<PathBuf, Failure> {
        let named = self.entry.directory.as_deref();
        let directory = root.join(named.unwrap_or(Path::new(&self.name)));
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)
            .and_then(|()| directory.canonicalize());
        made.map_err(|error| {
            let (name, shown) = (&self.name, directory.display());
            Failure::usage(format!(
                "the directory `{shown}` of the tenant `{name}` cannot be used: {error}"
            ))
        })
    }

    /// The server's context with the tenant's own settings.
    ///
    /// # Errors
    /// The key file names a database that is not in config.toml.
    pub fn context(&self, server: &Context) -> Result<Context, Failure> {
        let mut context = server.clone();
        context.may_ask = self.entry.scope == Scope::Ask;
        let below = Path::new("tenants").join(&self.name);
        context.paths.data = server.paths.data.join(&below);
        context.paths.state = server.paths.state.join(&below);
        // MCP servers run unconfined, with keys of the server's own person.
        context.config.mcp.clear();
        let all = std::mem::take(&mut context.config.databases);
        for name in &self.entry.databases {
            let Some(database) = all.get(name) else {
                let (tenant, name) = (&self.name, name.as_str());
                return Err(Failure::usage(format!(
                    "the tenant `{tenant}` is to have the database `{name}`, and config.toml has none of that name"
                )));
            };
            context
                .config
                .databases
                .insert(name.clone(), database.clone());
        }
        Ok(context)
    }

    /// Settings of its sessions.
    pub fn settings(&self, server: &SessionSettings) -> SessionSettings {
        let mut settings = server.clone();
        // Packages that one tenant's code asks for are not installed where another one's code would find them.
        settings.install = Some(InstallPolicy::Never);
        let costs = [settings.max_cost, self.entry.max_cost];
        settings.max_cost = costs.into_iter().flatten().reduce(f64::min);
        settings
    }
}

/// The tenants in `file`.
///
/// # Errors
/// The file cannot be read, is writable by others, or is invalid.
pub fn read(file: &Path) -> Result<Vec<Tenant>, Failure> {
    let shown = file.display();
    let failed = |error: io::Error| {
        Failure::usage(format!("the key file `{shown}` cannot be read: {error}"))
    };
    let metadata = std::fs::metadata(file).map_err(failed)?;
    if metadata.mode() & 0o077 != 0 {
        return Err(
            Failure::usage(format!("others can read or change the key file `{shown}`"))
                .hint(format!("make it yours alone with `chmod 600 {shown}`")),
        );
    }
    if metadata.len() > LARGEST {
        return Err(Failure::usage(format!(
            "the key file `{shown}` is larger than 1 MiB"
        )));
    }
    let text = std::fs::read_to_string(file).map_err(failed)?;
    parse(&text)
        .map_err(|reason| Failure::usage(format!("the key file `{shown}` is not right: {reason}")))
}

fn parse(text: &str) -> Result<Vec<Tenant>, String> {
    let entries: BTreeMap<String, Entry> =
        toml::from_str(text).map_err(|error| error.to_string())?;
    let mut tenants = Vec::new();
    for (name, entry) in entries {
        check_name(&name)?;
        let digest = entry.key.strip_prefix("sha256:").unwrap_or_default();
        if digest.len() != 64 || !digest.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(format!(
                "`key` of `{name}` has to be `sha256:` and 64 hexadecimal digits; `sponde keys add` writes it"
            ));
        }
        if entry
            .max_cost
            .is_some_and(|cost| cost.is_nan() || cost < 0.0)
        {
            return Err(format!(
                "`max-cost` of `{name}` has to be a number of US dollars"
            ));
        }
        let digest = digest.to_ascii_lowercase();
        if tenants.iter().any(|other: &Tenant| other.digest == digest) {
            return Err(format!("`{name}` has the key of another tenant"));
        }
        tenants.push(Tenant {
            name,
            digest,
            entry,
        });
    }
    Ok(tenants)
}

/// The name becomes a directory.
fn check_name(name: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_good) {
        return Err(format!(
            "`{name}` cannot be a tenant's name: use up to {LONGEST_NAME} letters, digits, `-` and `_`"
        ));
    }
    Ok(())
}

/// Creates a key for `name` in `file`, which is created if necessary. Returns the key, which cannot be read from the
/// file.
///
/// # Errors
/// The file is invalid, cannot be written, or already has a tenant of that name.
pub fn add(file: &Path, name: &str, scope: Scope) -> Result<String, Failure> {
    check_name(name).map_err(Failure::usage)?;
    if file.exists() && read(file)?.iter().any(|tenant| tenant.name == name) {
        let shown = file.display();
        return Err(Failure::usage(format!(
            "the key file `{shown}` has a tenant `{name}` already"
        ))
        .hint("remove its table from the file to take its key away"));
    }
    let half = || uuid::Uuid::new_v4().simple().to_string();
    let key = format!("sponde-{}{}", half(), half());
    let scope = scope.name();
    let table = format!(
        "[{name}]\nkey = \"sha256:{}\"\nscope = \"{scope}\"\n\n",
        digest(&key)
    );
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let written = options
        .open(file)
        .and_then(|mut file| file.write_all(table.as_bytes()));
    written.map_err(|error| {
        let message = format!(
            "the key file `{}` cannot be written: {error}",
            file.display()
        );
        Failure::new(FailureKind::Failed, message)
    })?;
    Ok(key)
}

/// SHA-256 in hexadecimal.
pub fn digest(key: &str) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(key);
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Checks that no tenant's directory contains another's, because nothing in it would be hidden.
///
/// # Errors
/// The directories that are nested.
pub fn check_apart(directories: &[(String, PathBuf)]) -> Result<(), Failure> {
    for (n, (name, one)) in directories.iter().enumerate() {
        let mut others = directories.iter().skip(n + 1);
        let near = others.find(|(_, other)| one.starts_with(other) || other.starts_with(one));
        if let Some((other, _)) = near {
            return Err(Failure::usage(format!(
                "the directories of the tenants `{name}` and `{other}` are not apart: `{}` is the other's, or in it",
                one.display()
            )));
        }
    }
    Ok(())
}

/// Checks that tenants' code is confined so that it cannot reach files or processes of others.
///
/// # Errors
/// It would not be confined.
pub async fn check_confined(
    settings: &SessionSettings,
    directory: &Path,
    context: &Context,
) -> Result<(), Failure> {
    let gateway = settings
        .gateway
        .as_ref()
        .or(context.config.gateway.as_ref());
    if gateway.is_some() || settings.existing.is_some() {
        return Err(Failure::usage("a server with keys starts its own kernels: those of a gateway are not confined by Sponde")
            .hint("leave out --gateway, or --keys"));
    }
    let found = sandbox(&settings.sandbox, CodeOf::Model, directory, &[], context).await?;
    let why = match &found {
        Sandbox::Full => "`--sandbox full` lets code of one read all of the others",
        Sandbox::Confined(confinement) => match confinement.tier {
            Tier::Bubblewrap { .. } | Tier::Gvisor { .. } => return Ok(()),
            Tier::Landlock => {
                "with Landlock alone the processes of one can see those of the others"
            }
            Tier::Seatbelt => "nobody has tested the sandbox of macOS against this",
        },
    };
    Err(
        Failure::usage(format!("a server with keys keeps tenants apart, and {why}"))
            .hint("install bubblewrap and use `--sandbox workspace`, `read-only` or `gvisor`"),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_shown_once_and_kept_as_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("keys.toml");
        let key = add(&file, "alice", Scope::Run).unwrap();
        let other = add(&file, "bob", Scope::Ask).unwrap();
        assert!(key != other && key.starts_with("sponde-") && key.len() == 71);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&key), "{text}");
        let tenants = read(&file).unwrap();
        assert_eq!(tenants[0].name, "alice");
        assert_eq!(
            (tenants[0].digest.as_str(), tenants[0].scope()),
            (&*digest(&key), Scope::Run)
        );
        assert_eq!(tenants[1].scope(), Scope::Ask);
        let again = add(&file, "alice", Scope::Run).unwrap_err();
        assert!(again.message.contains("already"), "{again}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read(&file).unwrap_err().message.contains("others can read"));
    }

    #[test]
    fn mistakes_in_a_key_file_are_said() {
        let key = digest("x");
        for (text, part) in [
            ("[a]\nkey = \"secret\"".to_owned(), "sha256:"),
            (
                format!("[\"../b\"]\nkey = \"sha256:{key}\""),
                "cannot be a tenant's name",
            ),
            (
                format!("[a]\nkey = \"sha256:{key}\"\nscop = \"run\""),
                "unknown field",
            ),
            (
                format!("[a]\nkey = \"sha256:{key}\"\nmax-cost = nan"),
                "US dollars",
            ),
            (
                format!("[a]\nkey = \"sha256:{key}\"\n[b]\nkey = \"sha256:{key}\""),
                "another tenant",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let apart = |one: &str, other: &str| {
            check_apart(&[("a".to_owned(), one.into()), ("b".to_owned(), other.into())]).is_ok()
        };
        assert!(
            apart("/srv/a", "/srv/ab")
                && !apart("/srv/a", "/srv/a/b")
                && !apart("/srv/a", "/srv/a")
        );
    }
}
