//! Which text is redacted, which is kept, and how pieces are joined.

use super::*;

fn redactor() -> Redactor {
    Redactor::of([
        ("MY_API_KEY", "hunter2-hunter3"),
        ("DATABASE_URL", "postgres://ada:lovelace-1815@h/db"),
        ("SHORT_KEY", "abc"),
        ("DB_PASSWORD", "postgres"),
        ("PLAIN", "not-secret-at-all"),
        ("SSH_KEY_PATH", "/home/ada/.ssh/id_ed25519"),
        ("SSH_AUTH_SOCK", "/run/user/1000/ssh"),
        ("ODBC", "Server=h;Password=pa55-w0rd!;"),
    ])
}

#[test]
fn known_values_are_taken_out() {
    let redactor = redactor();
    assert_eq!(format!("{redactor:?}"), "Redactor(3 values)");
    for (text, expected) in [
        ("nothing here", "nothing here"),
        ("a hunter2-hunter3.", "a [redacted]."),
        ("hunter2-hunter3hunter2-hunter3", "[redacted][redacted]"),
        ("hunter2-hunter", "hunter2-hunter"),
        (
            "postgres://ada:lovelace-1815@h/db",
            "postgres://ada:[redacted]@h/db",
        ),
        (
            "abc not-secret-at-all /home/ada/.ssh/id_ed25519",
            "abc not-secret-at-all /home/ada/.ssh/id_ed25519",
        ),
        ("pa55-w0rd!", "[redacted]"),
        ("postgres 16", "postgres 16"),
    ] {
        assert_eq!(redactor.values(text), expected);
    }
    redactor.clone().add("learnt later");
    assert_eq!(redactor.values("it was learnt later"), "it was [redacted]");
}

#[test]
fn forms_are_taken_out_where_they_are_asked_for() {
    let redactor = Redactor::default();
    // Split, so that scanners for secrets in source code do not find these.
    let random = "a1B2c3D4e5".repeat(4);
    let github = format!("{}{random}", "ghp_");
    let amazon = format!("{}{}", "AKIA", "ABCDEFGH12345678");
    let jwt = ["eyJhbGciOiJIUzI1NiJ9", "eyJzdWIiOiIxIn0", "c2ln"].join(".");
    let pem = [
        "-----BEGIN RSA",
        "PRIVATE KEY-----\nMIIE\n-----END RSA",
        "PRIVATE KEY-----",
    ]
    .join(" ");
    for (text, expected) in [
        (
            format!("use {github}, please"),
            "use [redacted], please".to_owned(),
        ),
        (format!("key={amazon}."), "key=[redacted].".to_owned()),
        (format!("Bearer {jwt}\n"), "Bearer [redacted]\n".to_owned()),
        (
            format!("a\n{pem}\nb {github}"),
            "a\n[redacted]\nb [redacted]".to_owned(),
        ),
        (
            "https://u:pw@h/x".to_owned(),
            "https://u:[redacted]@h/x".to_owned(),
        ),
    ] {
        assert_eq!(redactor.all(&text), expected);
        assert_eq!(redactor.values(&text), text);
        assert!(redactor.finds_any(&text));
    }
    for text in [
        "ASIA_2024_population_by_country.csv",
        "hf_model_checkpoint_v2_final_best",
        "sk-learn-is-a-package-of-python-2024",
        "https://example.com/a@b",
        "https://medium.com/@someone/post",
        "ssh://git@github.com/a/b.git",
        "-----BEGIN CERTIFICATE-----\nMIIE",
        "9f2c1be07d559f2c1be07d559f2c1be07d559f2c1be07d559f2c1be07d55abcd",
    ] {
        assert_eq!(redactor.all(text), text);
    }
}

#[test]
fn a_secret_in_pieces_is_found() {
    let redactor = redactor();
    let secret = "x hunter2-hunter3 y hunter2-hunter3";
    for length in 1..secret.len() {
        let mut stream = TextStream::default();
        let mut shown = String::new();
        for piece in secret.as_bytes().chunks(length) {
            shown += &redactor.piece(&mut stream, std::str::from_utf8(piece).unwrap());
        }
        shown += &stream.end();
        assert!(!shown.contains("hunter2-hunter3"), "{length}: {shown}");
        // At most three characters were shown before it was recognized.
        assert!(!shown.contains("hunt"), "{length}: {shown}");
        assert!(
            shown.contains("x ") && shown.contains(" y "),
            "{length}: {shown}"
        );
    }
}

#[test]
fn what_only_begins_like_a_secret_comes_whole() {
    let redactor = redactor();
    let mut stream = TextStream::default();
    assert_eq!(redactor.piece(&mut stream, "the hunter"), "the ");
    assert_eq!(redactor.piece(&mut stream, "s came"), "hunters came");
    assert_eq!(redactor.piece(&mut stream, " with hunter2"), " with ");
    assert_eq!(stream.end(), "hunter2");
    let mut stream = TextStream::default();
    let text = "größe hunter2-ü";
    let mut shown = String::new();
    for c in text.chars() {
        shown += &redactor.piece(&mut stream, c.encode_utf8(&mut [0; 4]));
    }
    assert_eq!(shown + &stream.end(), text);
}

#[test]
fn strings_of_json_are_looked_into() {
    let mut value = serde_json::json!({"a": ["hunter2-hunter3", 1], "b": {"c": "https://u:pw@h"}});
    let redactor = redactor();
    redactor.values_in(&mut value);
    assert_eq!(
        value,
        serde_json::json!({"a": ["[redacted]", 1], "b": {"c": "https://u:pw@h"}})
    );
    redactor.all_in(&mut value);
    assert_eq!(value["b"]["c"], "https://u:[redacted]@h");
}

/// Each byte is looked at only a few times, whatever the text contains.
#[test]
fn long_texts_are_read_once() {
    let redactor = redactor();
    for unit in [
        "hunter2-hunter",
        "://",
        "-----BEGIN ",
        "eyJ.",
        "a:b@",
        "sk-",
    ] {
        let text = unit.repeat((2 << 20) / unit.len());
        assert!(matches!(redactor.values(&text), Cow::Borrowed(_)));
        let _ = redactor.all(&text);
    }
    let text = "hunter2-hunter3 ".repeat((20 << 20) / 16);
    assert_eq!(redactor.values(&text).matches("hunter").count(), 0);
}
