//! `sponde config`, the page of the manual and completions: what the program says of itself.

use serde_json::Value;

use crate::support::Sponde;

#[test]
fn each_setting_says_where_it_comes_from() {
    let sponde = Sponde::new()
        .with("SPONDE_MODEL", "openai/of-environment")
        .with("MY_KEY", "hunter2-hunter3")
        .with("SPONDE_GATEWAY", "https://hub.example.org");
    sponde.configure(
        "model = \"openai/of-config\"\napproval = \"always\"\nmax-steps = 5\nprompt = \"say hunter2-hunter3\"\n\
         [limits]\nsession = 100\n[providers.mine]\nbase-url = \"http://127.0.0.1:1/v1\"\n",
    );
    sponde.profile("fin", "max-steps = 7\ncell-timeout = 9\n");
    let arguments = [
        "config",
        "--json",
        "--profile",
        "fin",
        "--cell-timeout",
        "30",
        "-k",
        "bash",
        "-k",
        "r",
    ];
    let ended = sponde.run(&arguments);
    assert_eq!(ended.code, Some(0), "{ended}");
    let all: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of = |key: &str| {
        let found = all.as_array().unwrap().iter().find(|it| it["key"] == key);
        let found = found.unwrap_or_else(|| panic!("{key} in {ended}"));
        let source = ["path", "variable", "flag"].map(|it| found[it].as_str().unwrap_or_default());
        let source = source.concat();
        let source = source.rsplit('/').next().unwrap().to_owned();
        (
            found["value"].to_string(),
            found["from"].as_str().unwrap().to_owned(),
            source,
        )
    };
    for (key, value, from, source) in [
        (
            "model",
            "\"openai/of-environment\"",
            "environment",
            "SPONDE_MODEL",
        ),
        (
            "gateway",
            "\"https://hub.example.org\"",
            "environment",
            "SPONDE_GATEWAY",
        ),
        ("kernel", "[\"bash\",\"r\"]", "flag", "--kernel"),
        ("cell-timeout", "\"30\"", "flag", "--cell-timeout"),
        ("profile", "\"fin\"", "flag", "--profile"),
        ("max-steps", "7", "profile", "fin.toml"),
        ("approval.policy", "\"always\"", "config", "config.toml"),
        ("limits.session", "100", "config", "config.toml"),
        (
            "providers.mine.base-url",
            "\"http://127.0.0.1:1/v1\"",
            "config",
            "config.toml",
        ),
        ("prompt", "\"say [redacted]\"", "config", "config.toml"),
        ("limits.cell-text", "4", "default", ""),
        ("sandbox", "\"workspace\"", "default", ""),
        ("code-mode", "null", "default", ""),
    ] {
        assert_eq!(
            of(key),
            (value.to_owned(), from.to_owned(), source.to_owned()),
            "{key}"
        );
    }
    let told = sponde.run(&["config", "steps", "code"]);
    let text = told
        .stdout
        .replace(&*sponde.path("../config").to_string_lossy(), "CONFIG");
    assert!(
        text.starts_with("code-mode  what suits the model  (default)\nmax-steps  5 "),
        "{text}"
    );
    assert!(text.contains("/config.toml)\n"), "{text}");
    let none = sponde.run(&["config", "nosuch"]);
    assert_eq!(none.code, Some(2), "{none}");
}

#[test]
fn the_manual_has_every_command() {
    let sponde = Sponde::new();
    let page = sponde.run(&["completions", "man"]);
    assert_eq!(page.code, Some(0), "{page}");
    assert!(page.stdout.contains(".TH sponde 1"), "{page}");
    let help = sponde.run(&["--help"]).stdout;
    let commands = help
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let names: Vec<&str> = commands
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let listed = format!("sponde\\-{}(1)", name.replace('-', "\\-"));
        assert!(page.stdout.contains(&listed), "{listed} in {page}");
        let own = sponde.run(&["completions", "man", name]);
        assert_eq!(own.code, Some(0), "{own}");
        assert!(own.stdout.contains(".SH SYNOPSIS"), "{own}");
    }
    let none = sponde.run(&["completions", "man", "nosuch"]);
    assert_eq!(none.code, Some(2), "{none}");
}

#[test]
fn shells_get_completions() {
    let sponde = Sponde::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sponde.run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{script}");
        assert!(script.stdout.contains("COMPLETE"), "{script}");
    }
    // As a shell asks.
    let asks = Sponde::new().with("COMPLETE", "fish");
    let offered = asks.run(&["--", "sponde", "con"]);
    assert!(offered.stdout.contains("config"), "{offered}");
    let offered = asks.run(&["--", "sponde", "ask", "--output-s"]);
    assert!(offered.stdout.contains("--output-schema"), "{offered}");
    asks.configure("model = \"ollama/tiny-model\"\n");
    for (command, words) in [
        (["ask", "--model", "ollama/"], "ollama/tiny-model"),
        (["ask", "-k", "misb"], "misbehave"),
        (["run", "-k", "pyth"], "python3"),
    ] {
        let offered = asks.run(&[&["--", "sponde"][..], &command].concat());
        assert!(offered.stdout.contains(words), "{offered}");
    }
}
