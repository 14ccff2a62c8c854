//! The hosts of package registries on an allow-list, as the person's own tools are configured. No registry host is in
//! our source.
//!
//! The tools run outside the sandbox. So neither a tool nor settings from the workspace are used, because code written
//! by a model could have put them there.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use reqwest::Url;
use tokio::process::Command;
use tokio::time::timeout;

use super::Context;
use crate::error::Failure;
use crate::kernel::{Network, NetworkContext, Registry, Rule};
use crate::llm::http;
use crate::program;

/// How long a tool may take to report its configuration, and an index to answer.
const TOOL_WITHIN: Duration = Duration::from_mins(1);
const INDEX_WITHIN: Duration = Duration::from_secs(20);
/// Maximum bytes of an index page.
const PAGE: usize = 8 << 20;
/// A package that every index has; its page tells where files are.
const PACKAGE: &str = "pip";
/// The accepted types of an index page (PEP 691), and the fallback.
const PAGE_TYPES: &str = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

/// The configuration of a tool.
#[derive(Debug, Default, PartialEq, Eq)]
struct SetUp {
    urls: Vec<String>,
    /// Variables that configure the tool in a kernel the same way.
    env: Vec<(String, String)>,
    /// The same for R, as a profile.
    r_profile: Option<String>,
}

/// The registry hosts for the allow-list of `network`, for code that works in `cwd`.
///
/// # Errors
/// A registry is allowed, but its tool cannot be asked.
pub(super) async fn context(
    network: &Network,
    cwd: &Path,
    context: &Context,
) -> Result<NetworkContext, Failure> {
    let mut found = NetworkContext::default();
    let Some(list) = network.allowed() else {
        return Ok(found);
    };
    let tools = Tools { cwd, context };
    let tools = &tools;
    let asking = list.registries().map(|registry| async move {
        let set_up = match registry {
            Registry::Pypi => tools.pip().await,
            Registry::Npm => tools.npm().await,
            Registry::Cran => tools.r().await,
            Registry::Conda => tools.conda().await,
        };
        (registry, set_up)
    });
    for (registry, set_up) in join_all(asking).await {
        let set_up = set_up.and_then(|set_up| {
            let rules: Vec<Rule> = set_up
                .urls
                .iter()
                .filter_map(|url| Rule::of_url(url))
                .collect();
            if rules.is_empty() {
                return Err("it is set up for no server".to_owned());
            }
            Ok((rules, set_up))
        });
        let (rules, set_up) = set_up.map_err(|reason| {
            let name = registry.name();
            Failure::usage(format!(
                "the hosts of `{name}` were not found out: {reason}"
            ))
            .hint("name them instead: `--network allow:HOST,..`")
        })?;
        for rule in rules {
            let rule = rule.as_it_is_set_up().await;
            if !found.registries.contains(&rule) {
                found.registries.push(rule);
            }
        }
        found.env.extend(set_up.env);
        found.r_profile = found.r_profile.or(set_up.r_profile);
    }
    Ok(found)
}

struct Tools<'a> {
    cwd: &'a Path,
    context: &'a Context,
}

impl Tools<'_> {
    /// pip's indexes, and where their files are.
    async fn pip(&self) -> Result<SetUp, String> {
        let own = self.context.paths.python_env().join("bin/python");
        let pythons = ["python3", "python"].map(|name| self.find(name));
        let pythons = pythons.into_iter().flatten().chain([own]);
        let mut set_up = Err("there is no Python with pip".to_owned());
        for python in pythons {
            // The defaults in its help reflect its files and variables.
            let Ok(help) = self
                .said(&python, &["-m", "pip", "install", "--help"])
                .await
            else {
                continue;
            };
            let Some(index) = pip_index(&help) else {
                continue;
            };
            let list = self.said(&python, &["-m", "pip", "config", "list"]).await;
            set_up = Ok(pip_set_up(&index, &list.unwrap_or_default()));
            break;
        }
        let mut set_up = set_up?;
        for name in [
            "UV_INDEX_URL",
            "UV_DEFAULT_INDEX",
            "UV_EXTRA_INDEX_URL",
            "UV_INDEX",
        ] {
            let value = self.context.paths.environment.get(name).unwrap_or_default();
            // `name=URL` or `URL`, separated by spaces.
            let urls = value.split_whitespace();
            let urls = urls.map(|url| {
                url.split_once("=http")
                    .map_or(url.to_owned(), |(_, it)| format!("http{it}"))
            });
            set_up.urls.extend(urls);
        }
        for index in set_up.urls.clone() {
            match files_of(&index).await {
                Ok(urls) => set_up.urls.extend(urls),
                Err(error) => {
                    tracing::warn!(error, "where an index has its files was not found out");
                }
            }
        }
        Ok(set_up)
    }

    async fn npm(&self) -> Result<SetUp, String> {
        let npm = self.find("npm").ok_or("there is no npm")?;
        let said = self
            .said(&npm, &["config", "get", "registry", "cafile"])
            .await?;
        let value = |name: &str| {
            let mut values = said
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            values
                .next()
                .map(str::trim)
                .filter(|value| !matches!(*value, "" | "null" | "undefined"))
        };
        let registry = value("registry").ok_or("npm names no registry")?;
        let mut env = vec![("npm_config_registry".to_owned(), without_password(registry))];
        env.extend(value("cafile").map(|file| ("npm_config_cafile".to_owned(), file.to_owned())));
        Ok(SetUp {
            urls: vec![registry.to_owned()],
            env,
            r_profile: None,
        })
    }

    async fn r(&self) -> Result<SetUp, String> {
        let r = self.find("Rscript").ok_or("there is no R")?;
        let code = "r <- getOption('repos'); cat(paste0(names(r), '\\t', r), sep = '\\n')";
        let said = self.said(&r, &["-e", code]).await?;
        r_set_up(&said).ok_or_else(|| {
            "R has no mirror: set `options(repos = ..)` in ~/.Rprofile or Rprofile.site".to_owned()
        })
    }

    async fn conda(&self) -> Result<SetUp, String> {
        let conda = ["conda", "mamba"].iter().find_map(|name| self.find(name));
        let conda = conda.ok_or("there is no conda")?;
        let arguments = ["config", "--show", "--json"];
        let said = self.said(&conda, &arguments).await?;
        conda_set_up(&said).ok_or_else(|| "conda did not say it in JSON".to_owned())
    }

    /// A program on the search path that is not in the workspace.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let path = self.context.paths.environment.get("PATH")?;
        let workspace = self.cwd.canonicalize().ok()?;
        let dirs = path.split(':').filter(|dir| dir.starts_with('/'));
        dirs.map(|dir| Path::new(dir).join(name)).find(|program| {
            let real = program.canonicalize();
            let is_foreign =
                |real: &PathBuf| workspace == Path::new("/") || !real.starts_with(&workspace);
            let is_program = |real: &Path| {
                real.metadata()
                    .is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
            };
            real.is_ok_and(|real| is_foreign(&real) && is_program(&real))
        })
    }

    async fn said(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let name = program
            .file_name()
            .unwrap_or(OsStr::new(""))
            .to_string_lossy()
            .into_owned();
        let variables = self.context.paths.environment.variables();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            // Lines must not be wrapped, and no settings of a directory apply.
            .env("COLUMNS", "2000")
            .current_dir("/");
        let said = match program::output(command, TOOL_WITHIN).await {
            Ok(said) => said,
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return Err(format!("`{name}` did not answer"));
            }
            Err(error) => return Err(format!("`{name}`: {error}")),
        };
        let failed = || format!("`{name}` failed ({}): {}", said.status, said.last_words());
        said.printed().ok_or_else(failed)
    }
}

/// The default of `--index-url` in the output of `pip install --help`.
fn pip_index(help: &str) -> Option<String> {
    let (_, rest) = help.split_once("--index-url <url>")?;
    let (_, rest) = rest.split_once("(default ")?;
    let (url, _) = rest.split_once(')')?;
    Some(url.trim().to_owned())
}

/// The index settings in pip's list (`section.name='value'`).
fn pip_set_up(index: &str, list: &str) -> SetUp {
    let mut set_up = SetUp {
        urls: vec![index.to_owned()],
        env: vec![
            ("PIP_INDEX_URL".to_owned(), without_password(index)),
            ("UV_DEFAULT_INDEX".to_owned(), without_password(index)),
        ],
        r_profile: None,
    };
    for line in list.lines() {
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let name = key.rsplit('.').next().unwrap_or_default();
        let value = value.trim().trim_matches(['\'', '"']).replace("\\n", " ");
        match name {
            "extra-index-url" => {
                let urls = value.split_whitespace();
                set_up.urls.extend(urls.clone().map(str::to_owned));
                let plain: Vec<String> = urls.map(without_password).collect();
                set_up
                    .env
                    .push(("PIP_EXTRA_INDEX_URL".to_owned(), plain.join(" ")));
            }
            "cert" => set_up.env.push(("PIP_CERT".to_owned(), value)),
            "trusted-host" => set_up.env.push(("PIP_TRUSTED_HOST".to_owned(), value)),
            _ => {}
        }
    }
    set_up
}

/// R's mirrors, from lines of name and URL. A kernel's R reads no settings from a home directory, so it gets them in a
/// profile that then loads the site's own.
fn r_set_up(said: &str) -> Option<SetUp> {
    let lines = said.lines().filter_map(|line| line.split_once('\t'));
    let repositories: Vec<(&str, &str)> = lines
        .map(|(name, url)| (name.trim(), url.trim()))
        .filter(|(_, url)| Rule::of_url(url).is_some())
        .collect();
    if repositories.is_empty() {
        return None;
    }
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let options: Vec<String> = repositories
        .iter()
        .map(|(name, url)| format!("{} = {}", quoted(name), quoted(&without_password(url))))
        .collect();
    let profile = format!(
        "local({{\n  site <- file.path(R.home(\"etc\"), \"Rprofile.site\")\n  if (file.exists(site)) sys.source(site, envir = globalenv())\n  \
         options(repos = c({}))\n}})\n",
        options.join(", ")
    );
    Some(SetUp {
        urls: repositories
            .iter()
            .map(|(_, url)| (*url).to_owned())
            .collect(),
        env: Vec::new(),
        r_profile: Some(profile),
    })
}

/// All URLs in conda's channel settings.
fn conda_set_up(json: &str) -> Option<SetUp> {
    let settings: serde_json::Value = serde_json::from_str(json).ok()?;
    let mut urls = Vec::new();
    let mut left: Vec<&serde_json::Value> = [
        "channel_alias",
        "default_channels",
        "channels",
        "custom_channels",
    ]
    .iter()
    .filter_map(|name| settings.get(name))
    .collect();
    while let Some(value) = left.pop() {
        match value {
            serde_json::Value::String(text) if text.contains("://") => urls.push(text.clone()),
            serde_json::Value::Array(values) => left.extend(values),
            serde_json::Value::Object(values) => left.extend(values.values()),
            _ => {}
        }
    }
    urls.sort();
    urls.dedup();
    let channels = settings
        .get("channels")
        .and_then(serde_json::Value::as_array);
    let channels = channels
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str);
    let channels: Vec<String> = channels.map(without_password).collect();
    let env = if channels.is_empty() {
        Vec::new()
    } else {
        vec![("CONDA_CHANNELS".to_owned(), channels.join(","))]
    };
    Some(SetUp {
        urls,
        env,
        r_profile: None,
    })
}

/// A kernel gets no password: its code could read it.
fn without_password(url: &str) -> String {
    let Ok(mut parsed) = Url::parse(url) else {
        return url.to_owned();
    };
    if parsed.username().is_empty() && parsed.password().is_none() {
        return url.to_owned();
    }
    // This fails only for a URL that cannot have credentials.
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    parsed.to_string()
}

/// Where an index stores its files, according to a package's page.
async fn files_of(index: &str) -> Result<Vec<String>, String> {
    let page = format!("{}/{PACKAGE}/", index.trim_end_matches('/'));
    if !page.starts_with("http") {
        return Ok(Vec::new());
    }
    let reading = async {
        let client = http::downloads().map_err(|error| error.to_string())?;
        let asked = client.get(&page).header("Accept", PAGE_TYPES).send().await;
        let response = asked.map_err(|error| error.without_url().to_string())?;
        let base = response.url().clone();
        let mut text = Vec::new();
        let mut chunks = response.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            text.extend_from_slice(&chunk.map_err(|error| error.without_url().to_string())?);
            if text.len() > PAGE {
                break;
            }
        }
        Ok(links(&base, &String::from_utf8_lossy(&text)))
    };
    let waited = timeout(INDEX_WITHIN, reading).await;
    waited.map_err(|_| "the index did not answer".to_owned())?
}

/// The hosts of a page's links, each as one URL, and the page's own host.
fn links(base: &Url, page: &str) -> Vec<String> {
    let json = serde_json::from_str::<serde_json::Value>(page).ok();
    let files = json.as_ref().and_then(|page| page.get("files")?.as_array());
    let targets: Vec<&str> = match files {
        Some(files) => files
            .iter()
            .filter_map(|file| file.get("url")?.as_str())
            .collect(),
        None => page
            .split("href=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect(),
    };
    let mut origins = vec![base.origin().ascii_serialization()];
    for target in targets {
        let Ok(url) = base.join(target) else { continue };
        let origin = url.origin().ascii_serialization();
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    origins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pips_words_say_its_index() {
        let help = "  -i, --index-url <url>       Base URL of the index (default https://u:****@index.corp:8443/simple/). This\n";
        assert_eq!(
            pip_index(help).as_deref(),
            Some("https://u:****@index.corp:8443/simple/")
        );
        assert_eq!(pip_index("--index-url <url> Base URL"), None);
        let list = ":env:.cert='/etc/ssl/own.pem'\nglobal.extra-index-url='https://u:pw@b.corp/simple'\nglobal.timeout='3'\n";
        let set_up = pip_set_up("https://u:****@index.corp/simple", list);
        assert_eq!(
            set_up.urls,
            [
                "https://u:****@index.corp/simple",
                "https://u:pw@b.corp/simple"
            ]
        );
        let env: Vec<_> = set_up
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            env,
            [
                ("PIP_INDEX_URL", "https://index.corp/simple"),
                ("UV_DEFAULT_INDEX", "https://index.corp/simple"),
                ("PIP_CERT", "/etc/ssl/own.pem"),
                ("PIP_EXTRA_INDEX_URL", "https://b.corp/simple"),
            ]
        );
    }

    #[test]
    fn links_of_both_kinds_of_pages_are_found() {
        let base = Url::parse("https://index.corp/simple/pip/").unwrap();
        let json = r#"{"files": [{"url": "https://files.corp/a/b.whl"}, {"url": "../c.whl"}, {"url": "https://files.corp/d"}]}"#;
        assert_eq!(
            links(&base, json),
            ["https://index.corp", "https://files.corp"]
        );
        let html =
            r#"<a href="https://files.corp:8443/x.whl#sha256=1">x</a><a href="/packages/y">y</a>"#;
        assert_eq!(
            links(&base, html),
            ["https://index.corp", "https://files.corp:8443"]
        );
        assert_eq!(links(&base, "no page"), ["https://index.corp"]);
    }

    #[test]
    fn mirrors_of_r_are_told_to_it_without_passwords() {
        let said = "CRAN\thttps://u:p@cran.corp/x\nown \"one\"\thttps://own.corp\nBioC\t@BIOC@\n";
        let set_up = r_set_up(said).unwrap();
        assert_eq!(set_up.urls, ["https://u:p@cran.corp/x", "https://own.corp"]);
        let profile = set_up.r_profile.unwrap();
        let options = "options(repos = c(\"CRAN\" = \"https://cran.corp/x\", \"own \\\"one\\\"\" = \"https://own.corp\"))";
        assert!(profile.contains(options), "{profile}");
        assert_eq!(r_set_up("CRAN\t@CRAN@\n"), None);
    }

    #[test]
    fn condas_channels_are_found() {
        let json = r#"{"channel_alias": "https://conda.corp", "channels": ["defaults", "https://u:p@own.corp/c"],
                       "default_channels": ["https://repo.corp/main"], "custom_channels": {"x": "https://x.corp"}, "pkgs_dirs": ["/x"]}"#;
        let urls = [
            "https://conda.corp",
            "https://repo.corp/main",
            "https://u:p@own.corp/c",
            "https://x.corp",
        ];
        let set_up = conda_set_up(json).unwrap();
        assert_eq!(set_up.urls, urls);
        let channels = (
            "CONDA_CHANNELS".to_owned(),
            "defaults,https://own.corp/c".to_owned(),
        );
        assert_eq!(set_up.env, [channels]);
        assert_eq!(conda_set_up("no"), None);
    }
}
