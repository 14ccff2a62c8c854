//! SQL: cells over files, data frames and databases, with a real PostgreSQL, SQLite and DuckDB; what is refused; and that
//! a password is seen by nobody.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde, not_tested, tools};

/// Of the person who asks; no form says that it is one.
pub(crate) const PASSWORD: &str = "Korrekt7Pferd%40Batterie";
/// As the server knows it.
pub(crate) const PLAIN: &str = "Korrekt7Pferd@Batterie";

/// A server of our own, as an ordinary person, gone when dropped.
pub(crate) struct Postgres {
    dir: tempfile::TempDir,
    port: u16,
    server: Child,
}

impl Postgres {
    /// `None` where there is no such program, which is said.
    pub(crate) fn start() -> Option<Self> {
        let Some(initdb) = program("initdb") else {
            not_tested("SQL with PostgreSQL: `initdb` is not here (Debian: postgresql)");
            return None;
        };
        let postgres = initdb.with_file_name("postgres");
        let dir = tempfile::tempdir().unwrap();
        let (data, password) = (dir.path().join("data"), dir.path().join("password"));
        std::fs::write(&password, PLAIN).unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        let made = as_nobody(&initdb)
            .args([
                "-U",
                "ada",
                "--auth=scram-sha-256",
                "-N",
                "-E",
                "UTF8",
                "--locale=C",
            ])
            .arg("-D")
            .arg(&data)
            .arg("--pwfile")
            .arg(&password)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let server = as_nobody(&postgres)
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(dir.path())
            .args([
                "-F",
                "-c",
                "listen_addresses=127.0.0.1",
                "-p",
                &port.to_string(),
            ])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { dir, port, server };
        let ends = Instant::now() + Duration::from_mins(1);
        while server.python("connection.execute('SELECT 1')").is_err() {
            assert!(Instant::now() < ends, "the server does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!(
            "postgresql://ada:{PASSWORD}@127.0.0.1:{}/postgres",
            self.port
        )
    }

    /// Over its socket, and without a network.
    fn socket_url(&self) -> String {
        let dir = self.dir.path().display().to_string().replace('/', "%2F");
        format!("postgresql://ada:{PASSWORD}@{dir}:{}/postgres", self.port)
    }

    /// Runs code that has a `connection`; what it printed.
    pub(crate) fn python(&self, code: &str) -> Result<String, String> {
        let code = format!(
            "import psycopg, sys\nwith psycopg.connect(sys.stdin.read(), autocommit=True) as connection:\n    {}",
            code.replace('\n', "\n    ")
        );
        python(&code, &self.url())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let pid = i32::try_from(self.server.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let _ = self.server.wait();
    }
}

pub(crate) fn python(code: &str, stdin: &str) -> Result<String, String> {
    let mut command = assert_cmd::Command::new(tools().join("python/bin/python"));
    let output = command
        .args(["-c", code])
        .write_stdin(stdin)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// Debian has the server's programs in a directory of their own.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    std::env::split_paths(&path)
        .chain(versions.map(|version| version.path().join("bin")))
        .map(|dir| dir.join(name))
        .find(|program| program.exists())
}

/// It refuses to run as root.
pub(crate) fn as_nobody(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program);
    command
}

pub(crate) fn fill(server: &Postgres) {
    server
        .python(
            "connection.execute('CREATE TABLE customers (id int PRIMARY KEY, name text, city text)')\n\
             connection.execute('CREATE TABLE orders (id int PRIMARY KEY, customer_id int REFERENCES customers, \
             amount numeric(10,2), at timestamptz)')\n\
             connection.execute(\"COMMENT ON TABLE orders IS 'What was sold'\")\n\
             connection.execute(\"COMMENT ON COLUMN orders.amount IS 'in euro'\")\n\
             connection.execute(\"INSERT INTO customers SELECT i, 'c' || i, CASE WHEN i % 2 = 0 THEN 'Oslo' ELSE 'Rome' END \
             FROM generate_series(1, 100) i\")\n\
             connection.execute(\"INSERT INTO orders SELECT i, 1 + i % 100, 2, '2024-01-01Z'::timestamptz + i * interval '1 hour' \
             FROM generate_series(1, 50000) i\")\n\
             connection.execute('ANALYZE')",
        )
        .unwrap();
}

/// SQLite and DuckDB files and a CSV in the working directory.
pub(crate) fn files(sponde: &Sponde) {
    let code = "import sqlite3, duckdb, sys\n\
                dir = sys.stdin.read()\n\
                with sqlite3.connect(dir + '/rates.sqlite') as c:\n    \
                c.execute('CREATE TABLE rates (city TEXT PRIMARY KEY, rate REAL)')\n    \
                c.execute(\"INSERT INTO rates VALUES ('Oslo', 2.0), ('Rome', 3.0)\")\n\
                with duckdb.connect(dir + '/weights.duckdb') as c:\n    \
                c.execute(\"CREATE TABLE weights AS SELECT 'c' || i AS name, i AS weight FROM range(1, 101) t(i)\")\n";
    python(code, &sponde.path("").display().to_string()).unwrap();
    sponde.write("countries.csv", "city,country\nOslo,NO\nRome,IT\n");
}

const CONFIG: &str = "
[databases.shop]
url-env = \"SHOP_URL\"
seconds = 5
[databases.rates]
url = \"sqlite:///rates.sqlite\"
[databases.weights]
url = \"duckdb:///weights.duckdb\"
";

pub(crate) const FRAME: &str =
    "import pandas as pd\nbonus = pd.DataFrame({'name': ['c1', 'c2'], 'bonus': [10, 20]})";
const JOIN: &str = "%%sql sales
SELECT c.city, f.country, r.rate, sum(o.amount) AS total, count(*) AS n, count(b.bonus) AS bonuses, sum(w.weight) AS weight
FROM shop.orders o JOIN shop.public.customers c ON c.id = o.customer_id
JOIN 'countries.csv' f ON f.city = c.city LEFT JOIN bonus b ON b.name = c.name
JOIN rates.rates r ON r.city = c.city JOIN weights.weights w ON w.name = c.name
WHERE o.id <= 1000 GROUP BY ALL ORDER BY c.city";
/// Whatever code of a kernel can do to get at the password or round the limits.
const BREAK_OUT: &str = "import os, socket, psycopg
print('variable', 'SHOP_URL' in os.environ)
for address in (('127.0.0.1', PORT),):
    try:
        socket.create_connection(address, timeout=2); print('rea' + 'ched')
    except OSError as error:
        print('no way', type(error).__name__)
magic = get_ipython().magics_manager.magics['cell']['sql']
print(magic.of_sponde['databases'], 'pass' + 'word' in str(magic.of_sponde).lower())
found = [it for it in __import__('gc').get_objects() if isinstance(it, (dict, list)) and 'Korrekt' + '7' in str(it)[:2000]]
print('found', len(found))";

/// A mock that calls `run_code` with these cells, one after the other, then answers.
pub(crate) async fn model(cells: &[(&str, Option<&str>)]) -> Aimock {
    let mut fixtures = Vec::new();
    for (turn, (code, language)) in cells.iter().enumerate() {
        let arguments = match language {
            Some(language) => json!({ "code": code, "language": language }),
            None => json!({ "code": code }),
        };
        fixtures.push(
            json!({"match": {"turnIndex": turn}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments.to_string()}]}}),
        );
    }
    fixtures.push(json!({"match": {"turnIndex": cells.len()}, "response": {"content": "Done."}}));
    Aimock::start(&json!(fixtures)).await
}

#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::too_many_lines,
    reason = "one conversation, and all that must be seen of it"
)]
async fn files_frames_and_databases_in_one_query_and_no_password_anywhere() {
    let Some(server) = Postgres::start() else {
        return;
    };
    fill(&server);
    let break_out = BREAK_OUT.replace("PORT", &server.port.to_string());
    let mock = model(&[
        (FRAME, None),
        (JOIN, Some("sql")),
        (
            "%%sql late --in shop\nSELECT max(at) AS at, sum(amount) AS total FROM orders",
            Some("sql"),
        ),
        (
            "sales.merge(sales, on='city')['total_x'].sum() + late['total'][0]",
            None,
        ),
        ("%%sql x --in shop\nDELETE FROM orders", Some("sql")),
        (
            "%%sql x --in shop\nWITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
            Some("sql"),
        ),
        (
            "%%sql x --in shop\nSELECT set_config('transaction_read_only', 'off', false)",
            Some("sql"),
        ),
        ("%%sql x --in shop\nSELECT pg_sleep(60)", Some("sql")),
        ("%%sql x --in rates\nDELETE FROM rates", Some("sql")),
        ("%%sql x --in weights\nDROP TABLE weights", Some("sql")),
        (
            "%%sql x --in weights\nSELECT * FROM read_csv('/etc/passwd')",
            Some("sql"),
        ),
        (&break_out, None),
    ])
    .await;
    for url in [server.url(), server.socket_url()] {
        let sponde = Sponde::new().with_model(&mock).with("SHOP_URL", &url);
        sponde.configure(CONFIG);
        files(&sponde);
        let began = Instant::now();
        let ended = sponde.run(&[
            "ask",
            "how much was sold?",
            "--model",
            "gpt-4o",
            "--yes",
            "-vvv",
            "--database",
            "shop",
            "--database",
            "rates",
            "--database",
            "weights",
            "--notebook",
            "sales.ipynb",
        ]);
        assert_eq!(ended.code, Some(0), "{ended}");
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        for words in [
            "sales: 2 rows, 7 columns",
            "0  Oslo      NO   2.0  1000.0  500       10   25500",
            "1  Rome      IT   3.0  1000.0  500       10   25000",
            "102000.0",
            "SqlError: shop: `delete`: it is read-only",
            "SqlError: shop: DECLARE CURSOR must not contain data-modifying statements",
            "SqlError: shop: cannot set transaction read-write mode inside a read-only transaction",
            "SqlError: shop: it took longer than",
            "SqlError: rates: attempt to write a readonly database",
            "SqlError: weights: Invalid Input Error: Cannot execute statement of type \"DROP\"",
            "file system operations are disabled",
            "variable False",
            "no way",
            "found 0",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(!shown.contains("reached"), "{shown}");
        assert!(
            began.elapsed() < Duration::from_secs(50),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(
            server
                .python("print(connection.execute('SELECT count(*) FROM orders').fetchone())")
                .unwrap(),
            "(50000,)\n"
        );
        let sent: Vec<Value> = mock.journal().await;
        let prompts = json!(sent).to_string();
        for words in [
            "Database shop (PostgreSQL",
            "Table orders: about 50000 rows (What was sold)",
            "- customer_id: integer, refers to customers.id",
            "- amount: numeric(10,2) (in euro)",
            "Table rates: 2 rows",
            "Table weights: 100 rows",
        ] {
            assert!(prompts.contains(words), "{words}: {prompts}");
        }
        // What makes cells run elsewhere is told to nobody.
        assert!(!prompts.contains("_define_sql") && !shown.contains("_define_sql"));
        let notebook = sponde.read("sales.ipynb");
        assert!(notebook.contains("_define_sql"), "{notebook}");
        for (what, text) in [("screen", &shown), ("prompts", &prompts)] {
            for secret in [PASSWORD, PLAIN] {
                assert!(!text.contains(secret), "{what}: {text}");
            }
        }
        assert_eq!(
            files_with(sponde.path("..").as_path(), &[PASSWORD, PLAIN]),
            Vec::<PathBuf>::new()
        );
    }
    mock.stop().await;
}

/// Files below `dir` that have one of these words in them.
pub(crate) fn files_with(dir: &Path, words: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(files_with(&path, words));
        } else if kind.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            if words.iter().any(|word| text.contains(word)) {
                found.push(path);
            }
        }
    }
    found
}

/// What the configuration allows, and what it limits.
#[tokio::test(flavor = "multi_thread")]
async fn limits_and_permission_to_write() {
    let Some(server) = Postgres::start() else {
        return;
    };
    fill(&server);
    let mock = model(&[
        ("%%sql x --in shop\nSELECT id FROM orders", Some("sql")),
        ("%%sql x\nSELECT max(id) FROM shop.orders", Some("sql")),
        ("%%sql y\nSELECT count(*) AS n, sum(amount) AS total FROM shop.orders WHERE id < 50 AND amount > 1.5", Some("sql")),
        ("%%sql x --in dear\nSELECT count(*) FROM orders a, orders b", Some("sql")),
        ("%%sql x --in open\nDELETE FROM orders WHERE id > 49000", Some("sql")),
        ("%%sql x --in gone\nSELECT 1", Some("sql")),
    ])
    .await;
    let sponde = Sponde::new()
        .with_model(&mock)
        .with("SHOP_URL", &server.url());
    sponde.configure(
        "[databases.shop]\nurl-env = \"SHOP_URL\"\nrows = 100\nalways = true\n\
         [databases.dear]\nurl-env = \"SHOP_URL\"\nmax-cost = 100000\nalways = true\n\
         [databases.open]\nurl-command = \"printenv SHOP_URL\"\nwrite = true\nalways = true\n",
    );
    let began = Instant::now();
    let ended = sponde.run(&["ask", "go", "--model", "gpt-4o", "--yes"]);
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "x: the first 100 rows, there are more",
        "SqlError: shop.orders: this needs more than 100 rows of it; run that part in the database first",
        "y: 1 rows, 2 columns",
        "0  49   98.0",
        "SqlError: dear: the planner expects a cost of",
        "UsageError: there is no database `gone` in this session, only dear, open, shop",
    ] {
        assert!(ended.stderr.contains(words), "{words}: {ended}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        server
            .python("print(connection.execute('SELECT count(*) FROM orders').fetchone())")
            .unwrap(),
        "(49000,)\n"
    );
}

/// A notebook with SQL cells runs in Jupyter's own tools, which know nothing of us, and once more with us.
#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_with_sql_runs_elsewhere() {
    let mock = model(&[
        (FRAME, None),
        ("SELECT name, bonus * rate AS pay FROM bonus, rates.rates WHERE city = 'Oslo' ORDER BY name", Some("sql")),
        ("%%sql top --in rates\nSELECT max(rate) AS rate FROM rates", Some("sql")),
        ("print('pay', result['pay'].sum(), 'top', top['rate'][0])", None),
    ])
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure(CONFIG);
    files(&sponde);
    let ended = sponde.run(&[
        "ask",
        "go",
        "--model",
        "gpt-4o",
        "--yes",
        "--database",
        "rates",
        "--notebook",
        "pay.ipynb",
    ]);
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stderr.contains("pay 60.0 top 3.0"), "{ended}");
    crate::support::assert_is_valid_notebook(&sponde.path("pay.ipynb"));
    let bare = Command::new(tools().join("python/bin/jupyter"))
        .args(["execute", "pay.ipynb", "--output", "again.ipynb"])
        .current_dir(sponde.path(""))
        .env("RATES_URL", "sqlite:///rates.sqlite")
        .output()
        .unwrap();
    assert!(
        bare.status.success(),
        "{}",
        String::from_utf8_lossy(&bare.stderr)
    );
    assert!(sponde.read("again.ipynb").contains("pay 60.0 top 3.0"));
    let ours = sponde
        .start(&["run", "pay.ipynb", "-o", "ours.ipynb"])
        .end();
    // Nothing says where the database is.
    assert_eq!(ours.code, Some(1), "{ours}");
    assert!(
        ours.stderr.contains("found if its URL is in SHOP_URL"),
        "{ours}"
    );
    let named = [
        "run",
        "pay.ipynb",
        "--database",
        "rates",
        "-o",
        "named.ipynb",
    ];
    let named = sponde.start(&named).end();
    assert_eq!(named.code, Some(0), "{named}");
    assert!(sponde.read("named.ipynb").contains("pay 60.0 top 3.0"));
    let unknown = sponde.run(&["run", "pay.ipynb", "--database", "other"]);
    assert!(unknown.stderr.contains("no database `other`"), "{unknown}");
    let text = sponde.read("pay.ipynb");
    let at = |words: &str| text.find(words).unwrap();
    assert!(at("_define_sql") < at("SELECT name, bonus"), "{text}");
    assert_eq!(text.matches("def _define_sql").count(), 1);
}

/// What a person types; and more data than there is memory for it.
#[test]
fn more_data_than_memory() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    // 5 GB with 2 GB take some minutes and 12 GB of disk: SPONDE_TEST_LARGE=1 asks for them.
    let is_large = std::env::var_os("SPONDE_TEST_LARGE").is_some();
    let (memory, rows, least) = if is_large {
        (2_000, 240_000_000_u64, 5_000_000_000_u64)
    } else {
        (900, 45_000_000, 800 << 20)
    };
    sponde.configure(&format!("[kernel-limits]\nmemory = {memory}\n"));
    let make = format!(
        "import duckdb, sys\nduckdb.sql(\"COPY (SELECT hash(i) % 25000000 AS k, random() AS v, hash(i + 1) AS w \
         FROM range({rows}) t(i)) TO '\" + sys.stdin.read() + \"' (FORMAT parquet, COMPRESSION uncompressed)\")"
    );
    let file = sponde.path("big.parquet");
    python(&make, &file.display().to_string()).unwrap();
    let bytes = file.metadata().unwrap().len();
    assert!(bytes > least, "{bytes}");
    let mut lines = String::new();
    let _ = writeln!(
        lines,
        "%%sql counts\\\nSELECT count(*) AS keys, sum(n) AS n FROM (SELECT k, count(*) AS n, sum(v) AS v, max(w) AS w FROM 'big.parquet' GROUP BY k)"
    );
    let _ = writeln!(
        lines,
        "!print('keys', int(counts['keys'][0]) > 20_000_000, 'rows', int(counts['n'][0]))"
    );
    let _ = writeln!(
        lines,
        "!import resource; print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < {memory}_000)"
    );
    let _ = writeln!(lines, "!import glob; print('left', glob.glob('.sql-*'))");
    let mut command = assert_cmd::Command::from_std(sponde.command(&["--model", "m"]));
    let output = command
        .timeout(Duration::from_mins(20))
        .write_stdin(lines)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    for words in [
        "counts: 1 rows, 2 columns",
        &format!("keys True rows {rows}"),
        "peak True",
        "left []",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn a_database_that_cannot_be_had_is_named() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let password = ["postgresql://u:", "Korrekt7", "@h/d"].concat();
    let url = format!("[databases.shop]\nurl = \"{password}\"\n");
    for (config, name, says) in [
        ("", "shop", "add `[databases.shop]`"),
        (
            "[databases.rates]\nurl = \"sqlite:///x\"\n",
            "shop",
            "there are rates",
        ),
        ("[databases.shop]\n", "shop", "its URL is not known"),
        (
            "[databases.shop]\nurl-env = \"SHOP_URL\"\n",
            "shop",
            "the variable `SHOP_URL` is not set",
        ),
        (&url, "shop", "its URL in config.toml has a password"),
        (
            "[databases.Shop]\n",
            "shop",
            "a database cannot be called `Shop`",
        ),
        (
            "[databases.shop]\nurl-command = \"exit 3\"\n",
            "shop",
            "`url-command`: it failed",
        ),
    ] {
        sponde.configure(config);
        let ended = sponde.run(&["ask", "x", "--model", "m", "--database", name]);
        assert_eq!(ended.code, Some(2), "{ended}");
        assert!(ended.stderr.contains(says), "{says}: {ended}");
        assert!(!ended.stderr.contains("Korrekt7@"), "{ended}");
    }
    // One that does not answer is the model's to know.
    sponde.configure("[databases.rates]\nurl = \"sqlite:///nothing.db\"\nalways = true\n");
    let mut command = assert_cmd::Command::from_std(sponde.command(&["--model", "m"]));
    let output = command
        .timeout(Duration::from_mins(2))
        .write_stdin("%%sql x --in rates\\\nSELECT 1\n")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        shown.contains("SqlError: rates: there is no file `nothing.db`"),
        "{shown}"
    );
}
