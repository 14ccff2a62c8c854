//! Which paths hold credentials.

use super::site::UNKNOWN;

/// Directory names, at any place.
const DIRECTORIES: [&str; 12] = [
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".azure",
    ".password-store",
    ".mozilla",
    "keyrings",
    "Keychains",
    "gcloud",
    ".docker",
    "secrets",
];
/// File names.
const FILES: [&str; 26] = [
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".Renviron",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".htpasswd",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "authorized_keys",
    "shadow",
    "sudoers",
    "credentials.json",
    "service-account.json",
    "service_account.json",
    "application_default_credentials.json",
    "logins.json",
    "Login Data",
];
/// File name suffixes.
const ENDS: [&str; 5] = [".pem", ".p12", ".pfx", ".kdbx", ".keystore"];
/// `.env` with one of these suffixes is meant to be public.
const EXAMPLES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];
/// Longer strings are not paths.
const LONGEST: usize = 1024;

/// Whether `path` is, or is in, a place that holds credentials.
pub(super) fn is_secret(path: &str) -> bool {
    if path.len() > LONGEST || path.contains('\n') || !path.contains(['.', '/', '_']) {
        return false;
    }
    let mut parts = path.split(['/', '\\']).filter(|part| !part.is_empty());
    let Some(name) = parts.next_back() else {
        return false;
    };
    let in_one = parts.any(|part| {
        DIRECTORIES.contains(&part) && (part.starts_with('.') || path.starts_with(['/', '~']))
    });
    in_one || name.starts_with('.') && DIRECTORIES.contains(&name) || is_secret_file(name, path)
}

fn is_secret_file(name: &str, path: &str) -> bool {
    // Prose mentions such files too.
    if name.contains(' ') && name != "Login Data" || name.contains(UNKNOWN) {
        return false;
    }
    let is_env = name
        .strip_prefix(".env")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && !EXAMPLES.contains(&rest));
    let is_file = FILES.contains(&name)
        // An ordinary word, unless it is the system's file.
        && (!matches!(name, "shadow" | "sudoers") || path.starts_with("/etc"));
    let is_key = ENDS
        .iter()
        .any(|end| name.len() > end.len() && name.ends_with(end));
    is_env || is_file || is_key || path.starts_with("/proc/") && name == "environ"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_for_credentials_are_known_and_data_is_none() {
        for path in [
            "~/.ssh/id_rsa",
            "/home/ada/.aws/credentials",
            ".env",
            "app/.env.production",
            "~/.netrc",
            "/etc/shadow",
            "/proc/self/environ",
            "/proc/1/environ",
            "server.pem",
            "~/.config/gcloud/application_default_credentials.json",
            "\0/.ssh/\0",
        ] {
            assert!(is_secret(path), "{path:?}");
        }
        for path in [
            "data.csv",
            "env",
            ".env.example",
            "my.env.csv",
            "shadow",
            "secrets",
            "secrets.csv",
            "the file .env is not read",
            "environment.yml",
            "a\nb/.ssh",
            "/proc/cpuinfo",
            ".pem",
        ] {
            assert!(!is_secret(path), "{path:?}");
        }
    }
}
