//! Profiles: `profiles/NAME.toml` beside `config.toml`, laid over it for one session.
//!
//! A profile may say whatever `config.toml` may, and what it does not say stays. Each file is checked by itself, so
//! that an error names its file and line.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;

use super::{Config, ConfigError};

/// Bytes of a file that is read as configuration.
const LARGEST: u64 = 1 << 20;

/// A profile that is there.
#[derive(Debug)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// What it says by itself, or why it cannot be used.
    pub config: Result<Config, ConfigError>,
}

/// The profiles in `dir`, by name.
pub fn list(dir: &Path) -> Vec<Profile> {
    let mut profiles: Vec<Profile> = std::fs::read_dir(folder(dir))
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_stem()?.to_str()?.to_owned();
            let is_profile = path.extension().is_some_and(|e| e == "toml") && is_name(&name);
            is_profile.then(|| Profile {
                config: read(&path).map(|(config, _)| config),
                name,
                path,
            })
        })
        .collect();
    profiles.sort_by(|a, b| a.name.cmp(&b.name));
    profiles
}

/// Where profiles are.
pub fn folder(dir: &Path) -> PathBuf {
    dir.join("profiles")
}

/// `config.toml` in `dir` with a profile laid over it: `named`, or else the one that `config.toml` names. The result's
/// `profile` is that one.
///
/// # Errors
/// [`ConfigError`].
pub fn layered(dir: &Path, named: Option<&str>) -> Result<Config, ConfigError> {
    let path = dir.join("config.toml");
    let (base, table) = match read(&path) {
        Err(ConfigError::Unreadable { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Default::default()
        }
        other => other?,
    };
    let Some(name) = named.or(base.profile.as_deref()) else {
        return Ok(base);
    };
    let path = folder(dir).join(format!("{name}.toml"));
    let (over, over_table) = match read(&path) {
        Err(ConfigError::Unreadable { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound || !is_name(name) =>
        {
            let known = list(dir).into_iter().map(|profile| profile.name).collect();
            return Err(ConfigError::NoProfile {
                name: name.to_owned(),
                folder: folder(dir).display().to_string(),
                known,
            });
        }
        other => other?,
    };
    let invalid = |reason: String| ConfigError::Invalid {
        path: path.display().to_string(),
        reason,
    };
    if over.profile.is_some() {
        return Err(invalid("a profile cannot name another one".to_owned()));
    }
    let prompt = [base.prompt.as_deref(), over.prompt.as_deref()]
        .into_iter()
        .flatten()
        .map(str::trim)
        .collect::<Vec<_>>()
        .join("\n\n");
    let config = Config::deserialize(over_table_on(table, over_table))
        .map_err(|error| invalid(error.to_string()))?;
    Ok(Config {
        profile: Some(name.to_owned()),
        prompt: Some(prompt).filter(|prompt| !prompt.is_empty()),
        ..config
    })
}

/// What the files say, each key by itself with the dots that lead to it: `config.toml` in `dir`, then the profile `named`.
///
/// # Errors
/// [`ConfigError`].
pub fn said(dir: &Path, named: Option<&str>) -> Result<Vec<Said>, ConfigError> {
    let mut all = Vec::new();
    let base = dir.join("config.toml");
    if base.exists() {
        flatten("", &read(&base)?.1, &base, &mut all);
    }
    if let Some(name) = named {
        let over = folder(dir).join(format!("{name}.toml"));
        flatten("", &read(&over)?.1, &over, &mut all);
    }
    Ok(all)
}

/// A key of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// With the dots that lead to it: `limits.session`.
    pub key: String,
    /// What it is set to.
    pub value: toml::Value,
    /// The file.
    pub path: PathBuf,
}

fn flatten(before: &str, table: &toml::Table, path: &Path, all: &mut Vec<Said>) {
    for (name, value) in table {
        let key = match before {
            "" => name.clone(),
            before => format!("{before}.{name}"),
        };
        match value {
            // A network that is a table is one value.
            toml::Value::Table(inner) if key != "network" => flatten(&key, inner, path, all),
            value => all.push(Said {
                key,
                value: value.clone(),
                path: path.to_owned(),
            }),
        }
    }
}

/// The keys of `over` on those of `base`; tables are merged. Rules of approval come before those of `base`, which stay:
/// what one of them forbids stays forbidden.
fn over_table_on(mut base: toml::Table, over: toml::Table) -> toml::Table {
    for (key, value) in over {
        let value = match (base.remove(&key), value) {
            (Some(below), above) if key == "approval" => approval_on(below, above),
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => {
                toml::Value::Table(over_table_on(below, above))
            }
            (_, value) => value,
        };
        base.insert(key, value);
    }
    base
}

/// `approval` of a profile over that of the configuration, each a word or a table.
fn approval_on(below: toml::Value, above: toml::Value) -> toml::Value {
    let table = |value| match value {
        toml::Value::Table(table) => table,
        word => toml::Table::from_iter([("policy".to_owned(), word)]),
    };
    let (mut below, mut above) = (table(below), table(above));
    let rules = [above.remove("rules"), below.remove("rules")];
    let rules = rules.into_iter().flatten().flat_map(|rules| match rules {
        toml::Value::Array(rules) => rules,
        other => vec![other],
    });
    let rules: Vec<toml::Value> = rules.collect();
    let mut both = over_table_on(below, above);
    both.insert("rules".to_owned(), toml::Value::Array(rules));
    toml::Value::Table(both)
}

/// A name that is a file's and nothing else.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn read(path: &Path) -> Result<(Config, toml::Table), ConfigError> {
    use std::io::Read as _;
    let shown = path.display().to_string();
    let unreadable = |source| ConfigError::Unreadable {
        path: shown.clone(),
        source,
    };
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST).read_to_string(&mut text))
        .map_err(unreadable)?;
    let invalid = |error: toml::de::Error| ConfigError::Invalid {
        path: shown.clone(),
        reason: error.to_string().trim_end().to_owned(),
    };
    let config = toml::from_str(&text).map_err(invalid)?;
    let table = toml::from_str(&text).map_err(invalid)?;
    Ok((config, table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::approval::Approval;
    use crate::config::Limits;

    fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("profiles")).unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn a_profile_lies_over_the_configuration() {
        let dir = dir(&[
            (
                "config.toml",
                "model = \"openai/x\"\nmax-steps = 5\nprompt = \"Metric units.\"\n[limits]\nsession = 100\nfiles = 1\n",
            ),
            (
                "profiles/fin.toml",
                "description = \"money\"\nmodel = \"local/y\"\ncode-mode = \"fenced\"\nstdin = \"model\"\nprompt = \"Euros.\\n\"\n[limits]\nfiles = 2\n",
            ),
        ]);
        let base = layered(dir.path(), None).unwrap();
        assert_eq!(
            (base.model.as_deref(), base.profile),
            (Some("openai/x"), None)
        );
        let config = layered(dir.path(), Some("fin")).unwrap();
        assert_eq!(
            config,
            Config {
                profile: Some("fin".to_owned()),
                description: Some("money".to_owned()),
                model: Some("local/y".to_owned()),
                max_steps: Some(5),
                code_mode: Some(crate::llm::mode::CodeMode::Fenced),
                stdin: Some(crate::agent::StdinPolicy::Model),
                prompt: Some("Metric units.\n\nEuros.".to_owned()),
                limits: Limits {
                    session: Some(100),
                    files: Some(2),
                    ..Limits::default()
                },
                ..Config::default()
            }
        );
    }

    #[test]
    fn a_profile_adds_rules_of_approval_and_takes_none_away() {
        let rule = "[[approval.rules]]\naction = \"forbid\"\nfinding = \"delete\"\n";
        for (below, above, policy, number) in [
            (rule, "approval = \"never\"\n", Approval::Never, 1),
            ("approval = \"always\"\n", rule, Approval::Always, 1),
            (rule, rule, Approval::OnRisk, 2),
        ] {
            let dir = dir(&[("config.toml", below), ("profiles/a.toml", above)]);
            let approval = layered(dir.path(), Some("a")).unwrap().approval;
            assert_eq!(approval.policy.unwrap_or(Approval::OnRisk), policy);
            assert_eq!(approval.rules.len(), number);
        }
    }

    #[test]
    fn the_configuration_may_name_a_profile_and_a_profile_none() {
        let dir = dir(&[
            ("config.toml", "profile = \"a\"\n"),
            ("profiles/a.toml", "max-steps = 3\n"),
            ("profiles/b.toml", "profile = \"a\"\n"),
        ]);
        let config = layered(dir.path(), None).unwrap();
        assert_eq!(
            (config.profile.as_deref(), config.max_steps),
            (Some("a"), Some(3))
        );
        let error = layered(dir.path(), Some("b")).unwrap_err().to_string();
        assert!(error.contains("cannot name another"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_line() {
        let dir = dir(&[
            ("profiles/bad.toml", "max-steps = 3\nmodle = 1\n"),
            ("profiles/ok.toml", ""),
            ("profiles/.hidden.toml", ""),
            ("profiles/note.txt", ""),
        ]);
        let error = layered(dir.path(), Some("bad")).unwrap_err().to_string();
        assert!(
            error.contains("bad.toml") && error.contains("line 2") && error.contains("modle"),
            "{error}"
        );
        for name in ["no", "../config", ""] {
            let error = layered(dir.path(), Some(name)).unwrap_err();
            assert!(
                matches!(&error, ConfigError::NoProfile { known, .. } if *known == ["bad", "ok"]),
                "{error}"
            );
        }
        let all = list(dir.path());
        let names: Vec<_> = all
            .iter()
            .map(|profile| (profile.name.as_str(), profile.config.is_ok()))
            .collect();
        assert_eq!(names, [("bad", false), ("ok", true)]);
    }
}
