//! `sponde models list`: lists the providers that a person could ask, after checking that each one answers.
//!
//! A provider is listed if it has a key, if it answers, or if the configuration names it. Facts come from the server,
//! otherwise from the catalog; an unknown one is a question mark, or null.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::super::args::ModelListArgs;
use super::super::style::{BAD, DIM, NAME, paint, stdout_colours};
use super::super::{Context, filter, print};
use crate::app::model::{catalog_failure, variables};
use crate::cli::exit::Exit;
use crate::error::Failure;
use crate::llm::catalog::{CatalogError, Setup};
use crate::llm::endpoint::ProviderKind;
use crate::llm::http;
use crate::llm::listing::{self, ListError, Listed};
use crate::llm::local::{KNOWN_MODELS, KnownModel, LocalModel, installed_models};
use crate::llm::providers::ProviderChoice;
use crate::llm::types::{ModelInfo, Price};

/// Timeout of a remote provider.
const PATIENCE: Duration = Duration::from_secs(5);

/// Timeout of a server on this machine.
const PATIENCE_HERE: Duration = Duration::from_millis(500);

/// A provider and its answer.
struct Asked {
    name: String,
    base_url: String,
    /// The source of its key, as text.
    key: Option<String>,
    /// Why it cannot be asked, if so.
    problem: Option<String>,
    /// All models it lists, or its default one if it could not be asked.
    models: Vec<ModelInfo>,
    usual: Option<String>,
    /// Whether it runs on this machine, so that all its models are relevant.
    here: bool,
}

/// Runs it.
pub(super) async fn list(args: &ModelListArgs, context: &Context) -> Result<Exit, Failure> {
    let environment = variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    let places = if args.providers.is_empty() {
        ProviderChoice::all(setup)
    } else {
        named(&args.providers, setup)?
    };
    let all = !args.providers.is_empty();
    let asked = join_all(places.into_iter().map(|place| ask(place, setup, all))).await;
    let asked: Vec<Asked> = asked
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| catalog_failure(&error))?
        .into_iter()
        .flatten()
        .collect();
    let local: Vec<ModelInfo> = installed_models(&context.paths.models())
        .iter()
        .filter(|_| args.providers.is_empty())
        .map(|model| ModelInfo {
            name: format!("local/{model}"),
            context_window: KnownModel::by_name(&model.to_string())
                .map(|known| known.context.into()),
            price: Some(Price::FREE),
            known: true,
            ..ModelInfo::default()
        })
        .collect();
    if args.json {
        let mut all: Vec<Value> = asked.iter().flat_map(as_json).collect();
        all.extend(
            local
                .iter()
                .map(|info| model_json(info, "local", None, None)),
        );
        let text = serde_json::to_string_pretty(&all).unwrap_or_default();
        print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    let mut text = table(&asked, &local, all);
    if args.providers.is_empty() {
        text.push_str(&to_pull(context));
    }
    print(&text)?;
    Ok(Exit::Done)
}

fn named<'a>(
    names: &[String],
    setup: Setup<'a>,
) -> Result<Vec<Result<ProviderChoice<'a>, CatalogError>>, Failure> {
    let find = |name: &String| {
        let place = ProviderChoice::named(name, setup).map_err(|error| catalog_failure(&error))?;
        place
            .map(Ok)
            .ok_or_else(|| Failure::usage(format!("there is no provider `{name}`")))
    };
    names.iter().map(find).collect()
}

/// Asks one provider; `None` if there is nothing to report. `wanted`: it was named.
async fn ask(
    place: Result<ProviderChoice<'_>, CatalogError>,
    setup: Setup<'_>,
    wanted: bool,
) -> Result<Option<Asked>, CatalogError> {
    let place = place?;
    let kind = place.provider.kind;
    // The same servers under another name.
    if !wanted
        && matches!(
            kind,
            ProviderKind::OpenAiResponses | ProviderKind::OpenAiChat
        )
        && place.name == place.provider.name
    {
        return Ok(None);
    }
    let key = place.key(setup.environment);
    let command = place.key_command();
    let own = place.name != place.provider.name;
    let base_url = match place.base_url(None, setup.environment) {
        Ok(base_url) => base_url,
        Err(error) if wanted || own || key.is_some() => return Err(error),
        Err(_) => return Ok(None),
    };
    let here = kind.runs_at_home();
    if key.is_none() && command.is_none() && !here && !own && !wanted {
        return Ok(None);
    }
    let (listed, problem) = if key.is_none() && command.is_some() {
        (None, Some("its `api-key-command` was not run".to_owned()))
    } else {
        let patience = if here && !own {
            PATIENCE_HERE
        } else {
            PATIENCE
        };
        match reach(kind, &base_url, key.as_ref(), patience).await {
            Ok(listed) => (Some(listed), None),
            // Nothing runs there, and it was not configured or named.
            Err(_) if here && !own && !wanted => return Ok(None),
            Err(ListError::Never) => (None, None),
            Err(error) => (None, Some(error.to_string())),
        }
    };
    let info = |name: &str| place.endpoint(name, &base_url, setup.environment).info;
    let models = match &listed {
        Some(listed) => {
            let mut models: Vec<ModelInfo> = listed
                .iter()
                .map(|Listed { name, facts }| {
                    let mut info = info(name);
                    facts.fill(&mut info);
                    info
                })
                .collect();
            models.sort_by(|a, b| a.name.cmp(&b.name));
            models
        }
        None => place.usual_model().map(info).into_iter().collect(),
    };
    Ok(Some(Asked {
        usual: place
            .usual_model()
            .map(|model| format!("{}/{model}", place.name)),
        name: place.name.clone(),
        base_url,
        key: match (&key, command) {
            (Some(key), _) => key.variable().map(|variable| format!("key in {variable}")),
            (None, Some(_)) => Some("key by api-key-command".to_owned()),
            (None, None) => None,
        },
        problem,
        models,
        here: here || own,
    }))
}

async fn reach(
    kind: ProviderKind,
    base_url: &str,
    key: Option<&crate::llm::endpoint::Key>,
    patience: Duration,
) -> Result<Vec<Listed>, ListError> {
    let unreachable = |message: String| ListError::Unreachable { message };
    let client = http::client(base_url).map_err(|error| unreachable(error.to_string()))?;
    let listed = listing::list(&client, kind, base_url, key);
    let silent = format!("nothing came within {} ms", patience.as_millis());
    tokio::time::timeout(patience, listed)
        .await
        .unwrap_or_else(|_| Err(unreachable(silent)))
}

/// One line per model, then the problems of providers that could not be asked. Text from servers is filtered before it
/// is coloured: afterwards our own colours would be escaped too.
fn table(asked: &[Asked], local: &[ModelInfo], all: bool) -> String {
    let mut rows: Vec<([String; 6], String)> = Vec::new();
    for provider in asked {
        let place = match (&provider.problem, &provider.key) {
            (Some(problem), _) => format!("{}: {problem}", provider.base_url),
            (None, Some(key)) => key.clone(),
            (None, None) => provider.base_url.clone(),
        };
        let place = filter::code(&place);
        let usual = |info: &&ModelInfo| Some(&info.name) == provider.usual.as_ref();
        let shown: Vec<&ModelInfo> = if all || provider.here {
            provider.models.iter().collect()
        } else {
            let first = provider.models.iter().find(usual);
            first.or(provider.models.first()).into_iter().collect()
        };
        if shown.is_empty() {
            let name = filter::code(&format!("{}/...", provider.name));
            let unknown = || "?".to_owned();
            let cells = [name, unknown(), unknown(), unknown(), unknown(), unknown()];
            rows.push((cells, place));
            continue;
        }
        let more = provider.models.len() - shown.len();
        for (at, info) in shown.into_iter().enumerate() {
            let place = match (at, more) {
                (0, 1..) => {
                    let name = filter::code(&provider.name);
                    format!("{place}; {more} more: sponde models list {name}")
                }
                _ => place.clone(),
            };
            rows.push((cells(info), place));
        }
    }
    for info in local {
        rows.push((cells(info), "on this machine".to_owned()));
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = ["model", "window", "reply", "sees", "tools", "$ in / out"].map(str::to_owned);
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(rows.iter().map(|(cells, _)| cells));
        cells.map(|cells| cells[column].chars().count()).max()
    };
    let widths: [usize; 6] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let colours = stdout_colours();
    let line = |cells: &[String; 6], style| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            let cell = if column == 0 {
                paint(style, cell, colours)
            } else {
                cell.clone()
            };
            let _ = match column {
                0 => write!(line, "{cell}{padding}"),
                _ => write!(line, "  {padding}{cell}"),
            };
        }
        line
    };
    let mut text = paint(
        DIM,
        &format!("{}  where", line(&head, anstyle::Style::new())),
        colours,
    );
    text.push('\n');
    for (cells, place) in &rows {
        let broken = asked
            .iter()
            .any(|it| it.problem.is_some() && place.starts_with(&it.base_url));
        let style = if broken { BAD } else { DIM };
        let _ = writeln!(
            text,
            "{}  {}",
            line(cells, NAME),
            paint(style, place, colours)
        );
    }
    text.push_str(&paint(
        DIM,
        "Tokens; list prices in US dollars for a million. From the server, else from models.dev as of October 2026; ? is not known.\n",
        colours,
    ));
    text
}

fn cells(info: &ModelInfo) -> [String; 6] {
    let yes = |it: bool| if it { "yes" } else { "no" }.to_owned();
    let unknown = || "?".to_owned();
    [
        filter::code(&info.name),
        info.context_window.map_or_else(unknown, tokens),
        info.max_output.map_or_else(unknown, tokens),
        if info.known || info.vision {
            yes(info.vision)
        } else {
            unknown()
        },
        info.tools.map_or_else(unknown, yes),
        info.price.map_or_else(unknown, |price| {
            if price == Price::FREE {
                "free".to_owned()
            } else {
                format!("{} / {}", dollars(price.input), dollars(price.output))
            }
        }),
    ]
}

/// `128k`, `1.05M`.
fn tokens(count: u64) -> String {
    let (number, unit) = match count {
        1_000_000.. => (count / 10_000, "M"),
        1000.. => return format!("{}k", (count + 500) / 1000),
        _ => return count.to_string(),
    };
    let (whole, part) = (number / 100, number % 100);
    let text = format!("{whole}.{part:02}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn dollars(price: f64) -> String {
    let text = format!("{price:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn as_json(asked: &Asked) -> Vec<Value> {
    let problem = asked.problem.as_deref();
    let base_url = Some(asked.base_url.as_str());
    let mut all: Vec<Value> = asked
        .models
        .iter()
        .map(|info| model_json(info, &asked.name, base_url, problem))
        .collect();
    if all.is_empty() {
        all.push(json!({"model": null, "provider": asked.name, "base_url": base_url, "problem": problem}));
    }
    all
}

fn model_json(
    info: &ModelInfo,
    provider: &str,
    base_url: Option<&str>,
    problem: Option<&str>,
) -> Value {
    json!({
        "model": info.name,
        "provider": provider,
        "base_url": base_url,
        "problem": problem,
        "context_window": info.context_window,
        "max_output": info.max_output,
        "vision": (info.known || info.vision).then_some(info.vision),
        "tools": info.tools,
        "price": info.price.map(|price| json!({
            "input": price.input, "cached": price.cached, "written": price.written, "output": price.output,
        })),
    })
}

fn to_pull(context: &Context) -> String {
    let colours = stdout_colours();
    let dir = context.paths.models();
    let mut text = String::new();
    for model in KNOWN_MODELS {
        if !LocalModel::Known(model).is_installed(&dir) {
            let line = format!(
                "local/{}  ({}, {} MB, {}; get it with `sponde models pull {}`)\n",
                model.name,
                model.title,
                model.bytes / 1_000_000,
                model.licence,
                model.name
            );
            text.push_str(&paint(DIM, &line, colours));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let cases = [
            (512, "512"),
            (8192, "8k"),
            (128_000, "128k"),
            (200_000, "200k"),
            (1_000_000, "1M"),
            (1_050_000, "1.05M"),
        ];
        for (count, expected) in cases {
            assert_eq!(tokens(count), expected);
        }
        assert_eq!(dollars(2.0), "2");
        assert_eq!(dollars(0.075), "0.075");
    }
}
