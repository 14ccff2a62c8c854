//! The token: created at a server's start, in a file that only its person can read.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::app::attach;
use crate::app::tenants::digest;
use crate::error::{Failure, FailureKind};

/// Minimum characters of a token in a person's own file.
const SHORTEST: usize = 32;
/// Maximum bytes of such a file.
const LARGEST: u64 = 1024;

/// The token. `Debug` does not show it.
pub struct Token {
    secret: String,
    path: PathBuf,
    /// Whether the file is removed with the server.
    is_ours: bool,
    /// The page that redirects a browser to the server, if it was created.
    page: OnceLock<PathBuf>,
}

impl Token {
    /// The token in `file`, which is created if it does not exist; without a file, a new one among the person's
    /// `sockets`.
    pub(super) fn open(
        file: Option<&Path>,
        port: Option<u16>,
        sockets: &Path,
    ) -> Result<Self, Failure> {
        let (path, is_ours) = if let Some(path) = file {
            (path.to_owned(), false)
        } else {
            let dir = attach::private_dir(sockets).map_err(|error| failed(sockets, &error))?;
            remove_stale(&dir);
            let (port, process) = (port.unwrap_or(0), std::process::id());
            (dir.join(format!("serve-{port}-{process}.token")), true)
        };
        if !is_ours && let Some(secret) = read(&path)? {
            return Ok(Self {
                secret,
                path,
                is_ours,
                page: OnceLock::new(),
            });
        }
        let secret = random();
        write(&path, &secret)?;
        Ok(Self {
            secret,
            path,
            is_ours,
            page: OnceLock::new(),
        })
    }

    /// The token itself.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// The file with the token.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a page next to the token's file that redirects to `url`, readable only by its person.
    pub(super) fn page(&self, url: &str) -> Result<PathBuf, Failure> {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{}.html", uuid::Uuid::new_v4().simple()));
        let path = self.page.get_or_init(|| PathBuf::from(name));
        let text = format!(
            "<!doctype html><meta http-equiv=refresh content=\"0;url={url}\"><a href=\"{url}\">Sponde</a>\n"
        );
        write(path, &text)?;
        Ok(path.clone())
    }
}

/// Recognises a secret.
pub(super) struct Secret {
    /// SHA-256 in hexadecimal.
    digest: String,
    /// The value of the cookie for the secret.
    cookie: String,
}

impl Secret {
    /// The server's own token. The cookie is valid as long as the token.
    pub(super) fn of(token: &Token) -> Self {
        let digest = digest(&token.secret);
        // HMAC accepts keys of any length.
        let cookie = Hmac::<Sha256>::new_from_slice(token.secret.as_bytes()).map(|mut mac| {
            mac.update(b"sponde cookie 1");
            hex(&mac.finalize().into_bytes())
        });
        Self {
            digest,
            cookie: cookie.unwrap_or_else(|_| random()),
        }
    }

    /// A secret of which only the digest is known. Its cookie is valid for this run.
    pub(super) fn with_digest(digest: String) -> Self {
        Self {
            digest,
            cookie: random(),
        }
    }

    /// Whether `other` is the secret. Takes constant time.
    pub(super) fn is(&self, other: &str) -> bool {
        is_same(&self.digest, &digest(other))
    }

    /// The cookie.
    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }
}

/// Removes the tokens of servers that were killed.
fn remove_stale(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|it| it.strip_prefix("serve-"));
        let process = name
            .and_then(|it| it.split('.').next()?.rsplit('-').next())
            .and_then(|it| it.parse().ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(process) = process
            && rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Compares digests, so that the time reveals nothing about the texts.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

/// 244 random bits.
pub(super) fn random() -> String {
    let half = || uuid::Uuid::new_v4().simple().to_string();
    half() + &half()
}

/// In hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The token in a person's own file; `None` if there is no file.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    };
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    let shown = path.display();
    if !metadata.is_file() || metadata.mode() & 0o077 != 0 {
        return Err(
            Failure::usage(format!("others can read the token in `{shown}`"))
                .hint(format!("make it yours alone with `chmod 600 {shown}`")),
        );
    }
    let mut text = String::new();
    let read = file.take(LARGEST).read_to_string(&mut text);
    read.map_err(|error| failed(path, &error))?;
    let secret = text.trim().to_owned();
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if secret.len() < SHORTEST || !secret.chars().all(is_good) {
        return Err(Failure::usage(format!(
            "the token in `{shown}` is not one: it needs {SHORTEST} or more letters, digits, `-`, `.`, `_`, `~`"
        ))
        .hint("remove the file: the server then makes a good one"));
    }
    Ok(Some(secret))
}

/// Writes a new file that only this person can read.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::new(
        FailureKind::Failed,
        format!("the token cannot be kept in `{path}`: {error}"),
    )
}

impl Drop for Token {
    fn drop(&mut self) {
        if let Some(page) = self.page.get() {
            let _ = std::fs::remove_file(page);
        }
        if self.is_ours {
            let _ = std::fs::remove_file(&self.path);
            // The last token removes the directory.
            if let Some(dir) = self.path.parent() {
                let _ = std::fs::remove_dir(dir);
            }
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_of_a_run_goes_with_it_and_one_of_the_person_stays() {
        let dir = tempfile::tempdir().unwrap();
        let token = Token::open(None, Some(7), dir.path()).unwrap();
        let path = token.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), token.secret());
        let secret = Secret::of(&token);
        assert!(secret.is(token.secret()) && !secret.is("other") && token.secret().len() == 64);
        assert!(!secret.cookie().contains(token.secret()));
        assert_eq!(format!("{token:?}"), "Token");
        drop(token);
        assert!(!path.exists());

        // From a run that was killed.
        let other = attach::private_dir(dir.path()).unwrap();
        let other = other.join("serve-80-999999999.token");
        std::fs::write(&other, "x").unwrap();
        drop(Token::open(None, Some(7), dir.path()).unwrap());
        assert!(!other.exists());

        let mine = dir.path().join("mine");
        let first = Token::open(Some(&mine), None, dir.path()).unwrap();
        let secret = first.secret().to_owned();
        drop(first);
        let again = Token::open(Some(&mine), None, dir.path()).unwrap();
        assert_eq!(again.secret(), secret);
    }

    #[test]
    fn a_file_that_others_read_or_a_poor_token_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "a".repeat(40)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = Token::open(Some(&path), None, dir.path()).unwrap_err();
        assert!(error.message.contains("others can read"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        Token::open(Some(&path), None, dir.path()).unwrap();
        std::fs::write(&path, "short").unwrap();
        let error = Token::open(Some(&path), None, dir.path()).unwrap_err();
        assert!(error.message.contains("is not one"), "{error}");
    }
}
