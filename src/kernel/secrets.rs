//! Recognizes secrets by variable name and by value. Code from a model must not get them, and logs must not contain
//! them.
//!
//! Values that count: a password in a URL or a connection string, and tokens in a form that their issuers have
//! published for detection.
//!
//! Deliberately not here: secrets without a known form in variables with an ordinary name, which nobody can recognize.

use std::ops::Range;

/// Words of a name that indicate a secret.
const WORDS: [&str; 9] = [
    "AUTH", "DSN", "KEY", "KEYS", "PASS", "PAT", "PWD", "SECRETS", "TOKENS",
];
/// Endings of a word that indicate a secret.
const ENDINGS: [&str; 9] = [
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "SECRET",
    "TOKEN",
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "SSHPASS",
];
/// Whole names that indicate a secret.
const NAMES: [&str; 20] = [
    // Sockets and servers that act for the user: code that can reach them can log in, start programs, or become root.
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "GNOME_KEYRING_CONTROL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "CONTAINER_HOST",
    "CONTAINERD_ADDRESS",
    // A gateway's URL may contain its token.
    "SPONDE_GATEWAY",
    "JUPYTER_GATEWAY_URL",
    // Files with credentials.
    "BOTO_CONFIG",
    "CLOUDSDK_CONFIG",
    "AZURE_CONFIG_DIR",
    "OCI_CLI_CONFIG_FILE",
    "KUBECONFIG",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "NETRC",
];
const HARMLESS: [&str; 2] = ["PWD", "OLDPWD"];

/// Prefixes of tokens, and how many characters follow at least.
const TOKENS: [(&str, usize); 36] = [
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("whsec_", 16),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 22),
    ("glpat-", 16),
    ("gldt-", 16),
    ("glrt-", 16),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 16),
    ("GOCSPX-", 16),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxe-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("xapp-", 10),
    ("hf_", 20),
    ("gsk_", 20),
    ("xai-", 20),
    ("r8_", 20),
    ("nvapi-", 20),
    ("npm_", 30),
    ("pypi-AgEI", 16),
    ("dop_v1_", 30),
    ("hvs.", 20),
    ("SG.", 40),
];

/// Whether a variable must be withheld from code that a model wrote.
pub fn is_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) || has_secret(value)
}

/// Whether a variable's name indicates that its value is a secret, or gives access to one.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if HARMLESS.contains(&name.as_str()) {
        return false;
    }
    NAMES.contains(&name.as_str())
        || (name.starts_with("AWS_") && name.ends_with("_FILE"))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| {
                WORDS.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending))
            })
}

/// Whether a text contains a secret: a URL or a connection string with a password, a private key, or a token of a known
/// form.
pub fn has_secret(text: &str) -> bool {
    (text.contains("-----BEGIN ") && text.contains("PRIVATE KEY"))
        || has_userinfo(text)
        || has_password_field(text)
        || has_token(text)
}

/// `scheme://user:password@host`, or `scheme://token@host` with a token as user.
fn has_userinfo(text: &str) -> bool {
    text.match_indices("://").any(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let end = rest
            .find(|c: char| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace())
            .unwrap_or(rest.len());
        let scheme = text[..at]
            .rsplit(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '.' | '-'))
            .next()
            .unwrap_or_default();
        // A password may contain an unescaped slash: then there is an at sign after it.
        let authority = &rest[..end];
        let Some((userinfo, _)) = authority.rsplit_once('@') else {
            let open = authority.split_once(':').map(|(_, port)| port);
            let is_port = open.is_none_or(|port| port.bytes().all(|c| c.is_ascii_digit()));
            return !is_port && !authority.contains('[') && rest[end..].contains('@');
        };
        // A user without a password is just a name if the scheme uses another way to log in.
        match userinfo.split_once(':') {
            Some((_, password)) => !password.is_empty(),
            None => !userinfo.is_empty() && matches!(scheme, "http" | "https"),
        }
    })
}

/// Whether there is a `password=..` in a connection string (libpq, ODBC, ADO.NET, Azure), or in the query of a URL.
fn has_password_field(text: &str) -> bool {
    fields(text).next().is_some()
}

/// Those fields that have a value, with their values.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str)> {
    const FIELDS: [&str; 10] = [
        "password",
        "passwd",
        "pwd",
        "accountkey",
        "sharedaccesskey",
        "sharedaccesssignature",
        "access_token",
        "api_key",
        "apikey",
        "token",
    ];
    text.split(|c: char| matches!(c, ';' | '&' | '?') || c.is_whitespace())
        .filter_map(|field| field.split_once('='))
        .filter(|(name, value)| {
            !value.is_empty() && FIELDS.contains(&name.trim().to_ascii_lowercase().as_str())
        })
}

fn has_token(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.split(|c: char| !is_part(c)).any(|word| {
        is_jwt(word)
            || TOKENS.iter().any(|(start, least)| {
                word.strip_prefix(start).is_some_and(|rest| {
                    rest.len() >= *least && rest.bytes().any(|c| c.is_ascii_digit())
                })
            })
    })
}

/// Three base64url parts, the first of which is a JSON object (RFC 7519).
fn is_jwt(word: &str) -> bool {
    let mut parts = word.split('.');
    let (Some(head), Some(body), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    head.starts_with("eyJ") && head.len() >= 10 && body.len() >= 4
}

/// The secrets in a variable: the parts of its value to redact.
pub(super) fn values<'a>(name: &str, value: &'a str) -> Vec<&'a str> {
    let value = value.trim();
    let mut all: Vec<&str> = found(value)
        .filter_map(|range| value.get(range))
        .chain(fields(value).map(|(_, value)| value))
        .collect();
    if all.is_empty() && is_secret_name(name) && !is_way(name) && !is_plain(value) {
        all.push(value);
    }
    all
}

/// Whether a secret variable only says where secrets are, or how to reach them.
fn is_way(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || name.ends_with("_FILE")
}

/// Whether a value is not worth redacting: a path, an address or a number is not a secret, whatever its variable is
/// called, and a word such as `postgres` is too common to reveal anything.
fn is_plain(value: &str) -> bool {
    let is_path = ["/", "./", "../", "~"]
        .iter()
        .any(|start| value.starts_with(start));
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let distinct: std::collections::BTreeSet<char> = value.chars().collect();
    let is_word = value.len() < 16
        && (value.bytes().all(|byte| byte.is_ascii_lowercase())
            || value.bytes().all(|byte| byte.is_ascii_uppercase()));
    is_path || is_number || is_word || value.contains("://") || distinct.len() < 5
}

/// The ranges of `text` that have the form of a secret: tokens, passwords in URLs, private keys. Sorted, without
/// overlaps.
pub(super) fn found(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut all: Vec<Range<usize>> = tokens(text).chain(passwords(text)).collect();
    all.extend(private_keys(text));
    all.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    all.into_iter().filter(move |range| {
        let is_apart = range.start >= end;
        end = end.max(range.end);
        is_apart
    })
}

/// Words that are tokens. A name that only starts like one does not count, because tokens are random.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let words = text.split(move |c: char| !is_part(c));
    let is_token = |word: &str| {
        is_jwt(word)
            || TOKENS.iter().any(|(start, least)| {
                word.strip_prefix(start).is_some_and(|rest| match *start {
                    "AKIA" | "ASIA" => {
                        let is_id = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit();
                        rest.len() == *least && rest.bytes().all(is_id)
                    }
                    _ => rest.len() >= *least && is_random(rest),
                })
            })
    };
    words
        .map(|word| word.trim_end_matches(['.', '-']))
        .filter(move |word| is_token(word))
        .map(move |word| {
            let start = word.as_ptr() as usize - text.as_ptr() as usize;
            start..start + word.len()
        })
}

fn is_random(text: &str) -> bool {
    let has = |is_it: fn(&u8) -> bool| text.as_bytes().iter().any(is_it);
    let is_hex = || text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    has(u8::is_ascii_digit)
        && (has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase) || is_hex())
}

/// Most bytes of a URL before its host.
const USERINFO: usize = 1024;

/// The password of `scheme://user:password@host`, or the token of `https://token@host`.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(move |(at, mark)| {
        let start = at + mark.len();
        let rest = text.get(start..)?;
        let rest = rest
            .char_indices()
            .take_while(|(at, _)| *at < USERINFO)
            .find(|(_, c)| matches!(c, '/' | '?' | '#' | '"' | '\'') || c.is_whitespace())
            .map_or_else(
                || rest.get(..rest.len().min(USERINFO)).unwrap_or_default(),
                |(end, _)| rest.get(..end).unwrap_or_default(),
            );
        let (userinfo, _) = rest.rsplit_once('@')?;
        match userinfo.split_once(':') {
            Some((user, password)) if !password.is_empty() => {
                let start = start + user.len() + 1;
                Some(start..start + password.len())
            }
            None if userinfo.len() >= 16 && text.get(..at)?.ends_with("https") => {
                Some(start..start + userinfo.len())
            }
            Some(_) | None => None,
        }
    })
}

/// PEM private keys, from mark to mark; one without an end mark extends to the end of the text.
fn private_keys(text: &str) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(begin) = text.get(at..).and_then(|rest| rest.find("-----BEGIN ")) {
        let begin = at + begin;
        let rest = text.get(begin..).unwrap_or_default();
        let title: String = rest.chars().take(64).take_while(|c| *c != '\n').collect();
        if !title.contains("PRIVATE KEY-----") {
            at = begin + 1;
            continue;
        }
        let end = rest.find("PRIVATE KEY-----").map_or(0, |at| at + 1);
        let end = rest
            .get(end..)
            .and_then(|more| more.find("-----END ").map(|at| end + at))
            .and_then(|from| {
                let close = rest.get(from + 9..)?.find("-----")?;
                Some(from + 9 + close + 5)
            });
        let end = begin + end.unwrap_or(rest.len());
        all.push(begin..end);
        at = end;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_tell() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SENTRY_DSN",
            "PG_DSN",
            "database_dsn",
            "SSH_AUTH_SOCK",
            "SSH_AGENT_PID",
            "DBUS_SESSION_BUS_ADDRESS",
            "DOCKER_HOST",
            "KUBECONFIG",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "AWS_SHARED_CREDENTIALS_FILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONFIG_FILE",
            "AZURE_CONFIG_DIR",
            "SPONDE_GATEWAY",
            "JUPYTER_GATEWAY_AUTH_TOKEN",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "MONKEY_HOME",
            "AWS_REGION",
            "AWS_PROFILE",
            "HTTPS_PROXY",
            "DATABASE_URL",
            "XDG_RUNTIME_DIR",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn values_that_are_secrets() {
        // Split, so that scanners for secrets in source code do not find these.
        let long = "a1B2c3D4e5".repeat(4);
        let tokens = TOKENS.map(|(start, _)| format!("{start}{long}"));
        let more = [
            "postgres://u:pw@h",
            "postgresql+psycopg2://u:p%40w@h:5432/db?sslmode=require",
            "http://user:pw@proxy.example:3128",
            "https://0123456789abcdef@github.com/a/b.git",
            "redis://:pw@h:6379/0",
            "amqp://u:p/w@h/vhost",
            "jdbc:postgresql://h/db?user=u&password=pw",
            "host=h user=u password=pw dbname=d",
            "Server=h;Database=d;User Id=u;Password=pw;",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=b==;EndpointSuffix=c",
            "a, postgres://u:pw@h, b",
            "{\"url\": \"mongodb+srv://u:pw@h/d\"}",
        ]
        .map(str::to_owned);
        let jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxIn0", "c2ln"].join(".");
        let pem = ["-----BEGIN RSA", "PRIVATE KEY-----\nMIIE\n"].join(" ");
        let bearer = format!("Authorization: Bearer {jwt}");
        for value in tokens.iter().chain(&more).chain([&jwt, &pem, &bearer]) {
            assert!(has_secret(value), "{value}");
            assert!(is_secret("X", value), "{value}");
        }
    }

    #[test]
    fn values_that_are_none() {
        for value in [
            "",
            "/usr/bin:/bin",
            "http://proxy.example:3128",
            "http://[::1]:3128",
            "https://h.example/simple?format=json@1",
            "https://medium.com/@someone/post",
            "https://h:8080/@someone",
            "ssh://git@github.com/a/b.git",
            "git@github.com:a/b.git",
            "unix:path=/run/user/1000/bus",
            "sk-learn",
            "sk-short",
            "sk-a-name-that-has-no-digit",
            "risk-averse-portfolio-2024-01",
            "hf_transfer",
            "npm_config_registry",
            "3.12.1",
            "eyJ.a.b",
            "-----BEGIN CERTIFICATE-----",
            "password=",
            "rs=0:di=01;34:ln=01;36",
            "en_GB.UTF-8",
        ] {
            assert!(!has_secret(value), "{value}");
        }
    }
}
