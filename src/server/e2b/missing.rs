//! What E2B has and Sponde does not: each request for it gets the same status, and words that say what to do instead.

use axum::http::{StatusCode, Uri};

use super::failure::E2bFailure;

/// What is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// Templates of the user's own.
    Template,
    /// Disks that several sandboxes use.
    Volume,
    /// Secrets that E2B keeps.
    Secret,
    /// MCP servers in a sandbox.
    McpGateway,
    /// A route or a method, by its name.
    Call(String),
}

impl Missing {
    /// What a path of the control plane is about.
    fn of_path(path: &str) -> Self {
        let path = path.strip_prefix("/e2b").unwrap_or(path);
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let is_version =
            |part: &&str| matches!(part.strip_prefix('v').map(str::parse::<u8>), Some(Ok(_)));
        match parts.find(|part| !is_version(part)) {
            Some("templates") => Self::Template,
            Some("volumes" | "volumecontent") => Self::Volume,
            Some("secrets") => Self::Secret,
            _ => Self::Call(format!("`{path}` of E2B's API")),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Template => "Sponde has no virtual machines, so it cannot build or list templates. Install packages where \
                 the server runs, or prepare a sandbox and keep its files with `create_snapshot`"
                .to_owned(),
            Self::Volume => "Sponde has no volumes: a sandbox sees only its own files. Write the files into each sandbox, or \
                 create sandboxes from a snapshot that has them"
                .to_owned(),
            Self::Secret => "Sponde does not keep secrets. Pass the value to the sandbox as one of its `envs`".to_owned(),
            Self::McpGateway => "Sponde does not run E2B's MCP gateway. Create the sandbox without `mcp`".to_owned(),
            Self::Call(name) => format!("{name} is not available in Sponde"),
        }
    }
}

impl From<Missing> for E2bFailure {
    fn from(missing: Missing) -> Self {
        let message = format!("{} (docs/e2b.md)", missing.words());
        Self::new(StatusCode::NOT_IMPLEMENTED, message)
    }
}

/// Answers every route that is not there.
pub(super) async fn route(uri: Uri) -> E2bFailure {
    Missing::of_path(uri.path()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_is_missing() {
        for (path, missing) in [
            ("/e2b/v3/templates", Missing::Template),
            ("/e2b/templates/aliases/mine", Missing::Template),
            ("/e2b/volumes", Missing::Volume),
            ("/e2b/volumecontent/v/file", Missing::Volume),
            ("/e2b/secrets/x", Missing::Secret),
            (
                "/e2b/events/webhooks",
                Missing::Call("`/events/webhooks` of E2B's API".to_owned()),
            ),
            ("/e2b/v9", Missing::Call("`/v9` of E2B's API".to_owned())),
        ] {
            assert_eq!(Missing::of_path(path), missing, "{path}");
        }
    }
}
