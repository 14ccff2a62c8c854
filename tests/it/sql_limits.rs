//! SQL within its limits: time for files and for each kind of database, memory of the process that holds the connections; and
//! databases by ADBC and by Spark Connect, with real drivers and a real Spark.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sql::{Postgres, files, fill};
use crate::support::{NOBODY, Sponde, not_tested, tools};

/// A chat whose lines come from a pipe; what it showed.
fn chat(sponde: &Sponde, lines: &str) -> String {
    let mut command = assert_cmd::Command::from_std(sponde.command(&["--model", "m"]));
    let output = command
        .timeout(Duration::from_mins(5))
        .write_stdin(lines)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn assert_shows(shown: &str, all: &[&str]) {
    for words in all {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

/// Counts for ever.
const FOR_EVER: &str =
    "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r";

#[test]
fn a_query_ends_at_its_limit_of_time() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    sponde.configure(
        "sql-timeout = 2\n\
         [databases.rates]\nurl = \"sqlite:///rates.sqlite\"\nalways = true\nseconds = 2\n\
         [databases.weights]\nurl = \"duckdb:///weights.duckdb\"\nalways = true\nseconds = 2\n",
    );
    files(&sponde);
    let lines = format!(
        "%%sql x\\\nSELECT count(*) FROM range(1000000000000) a(i) WHERE i % 7 = 3\n\
         %%sql x --in rates\\\n{FOR_EVER}\n\
         %%sql x --in weights\\\nSELECT count(*) FROM range(1000000000000) a(i) WHERE i % 7 = 3\n\
         %%sql x\\\nSELECT sum(rate) AS five FROM rates.rates\n"
    );
    let shown = chat(&sponde, &lines);
    assert_shows(
        &shown,
        &[
            "SqlError: it took longer than 2 s (`sql-timeout` in config.toml)",
            "SqlError: rates: it took longer than 2 s",
            "SqlError: weights: it took longer than 2 s",
            "x: 1 rows, 1 columns",
        ],
    );
}

/// The most memory that the process of a session with connections to databases had, in kilobytes.
fn peak_of_connector(session: u32) -> u64 {
    let session = session.to_string();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read =
            |file: &str| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let status = read("status");
        let field = |name: &str| {
            let found = status.lines().find_map(|line| line.strip_prefix(name));
            found.unwrap_or_default().trim().to_owned()
        };
        if field("PPid:") == session && read("cmdline").contains("sys.modules['connector']") {
            return field("VmHWM:").trim_end_matches(" kB").parse().unwrap();
        }
    }
    panic!("no connector of {session}");
}

/// More rows than there is room for come to the end of the room, whoever may write: nothing is read that is not wanted.
#[test]
fn a_result_has_no_more_than_its_room() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("SHOP_URL", &server.url());
    sponde.configure(
        "[databases.shop]\nurl-env = \"SHOP_URL\"\nwrite = true\nalways = true\nrows = 50000000\nmax-cost = 0\nseconds = 240\n",
    );
    let mut session = sponde
        .command(&["--model", "m"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = session.stdin.take().unwrap();
    // 50 GB.
    writeln!(
        stdin,
        "%%sql x --in shop\\\nSELECT i, repeat('x', 1000) AS s FROM (SELECT generate_series(1, 50000000) AS i) t"
    )
    .unwrap();
    let mut shown = String::new();
    let mut lines = BufReader::new(session.stderr.take().unwrap()).lines();
    for line in lines.by_ref().map_while(Result::ok) {
        shown.push_str(&line);
        if line.contains("there are more") || line.contains("Error") {
            break;
        }
    }
    let ends = |shown: &str| shown.contains("rows, there are more");
    if !ends(&shown) {
        drop(stdin);
        shown.extend(lines.map_while(Result::ok));
        let _ = session.wait();
        panic!("{shown}");
    }
    let peak = peak_of_connector(session.id());
    assert!(peak < 1_600_000, "{peak} kB");
    drop(stdin);
    session.wait().unwrap();
}

/// ADBC's drivers for SQLite and PostgreSQL, as those for Snowflake, BigQuery and Flight SQL are used.
#[test]
fn databases_by_adbc() {
    let Some(server) = Postgres::start() else {
        return;
    };
    fill(&server);
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("SHOP_URL", &format!("adbc+{}", server.url()));
    sponde.configure(
        "[databases.shop]\nurl-env = \"SHOP_URL\"\nalways = true\nseconds = 3\nrows = 1000\n\
         [databases.rates]\nurl = \"adbc+sqlite:///rates.sqlite\"\nalways = true\n",
    );
    files(&sponde);
    let shown = chat(
        &sponde,
        "%%sql sales\\\nSELECT r.city, count(*) AS n, sum(r.rate) AS rate FROM shop.customers c JOIN rates.rates r USING (city) WHERE c.id < 5 GROUP BY ALL ORDER BY ALL\n\
         !print(sales.values.tolist())\n\
         %%sql x --in shop\\\nSELECT sum(amount) AS total, max(at) AS at FROM orders\n\
         !print(x['total'][0], x['at'].dtype)\n\
         %%sql x --in shop\\\nDELETE FROM orders\n\
         %%sql x --in shop\\\nWITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone\n\
         %%sql x --in shop\\\nSELECT 1; DELETE FROM orders\n\
         %%sql x --in shop\\\nSELECT pg_sleep(60)\n\
         %%sql many --in shop\\\nSELECT id FROM orders\n\
         %%sql x --in rates\\\nDELETE FROM rates\n\
         %%sql x --in rates\\\nSELECT count(*) AS n FROM rates\n",
    );
    assert_shows(
        &shown,
        &[
            "[['Oslo', 2, 4.0], ['Rome', 2, 6.0]]",
            "100000.0 datetime64[us, UTC]",
            "SqlError: shop: `delete`: it is read-only",
            "read-only transaction",
            "SqlError: shop: several statements: it is read-only",
            "SqlError: shop: it took longer than",
            "many: the first 1000 rows, there are more",
            "SqlError: rates: `delete`: it is read-only",
        ],
    );
    assert_eq!(
        server
            .python("print(connection.execute('SELECT count(*) FROM orders').fetchone())")
            .unwrap(),
        "(50000,)\n"
    );
}

/// Spark's own server, gone when dropped.
struct Spark {
    server: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Spark {
    /// `None` where it is not installed, which is said.
    fn start() -> Option<Self> {
        let lib = tools().join("spark/lib");
        let versions = std::fs::read_dir(lib).into_iter().flatten().flatten();
        let home = versions
            .map(|version| version.path().join("site-packages/pyspark"))
            .find(|home| home.join("sbin/start-connect-server.sh").exists());
        let Some(home) = home else {
            not_tested("SQL with Spark Connect: pyspark is not in test-tools/spark (scripts/test)");
            return None;
        };
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let dir = tempfile::tempdir().unwrap();
        let server = Command::new(home.join("bin/spark-submit"))
            .args([
                "--class",
                "org.apache.spark.sql.connect.service.SparkConnectServer",
            ])
            .args(["--master", "local[1]", "--conf", "spark.ui.enabled=false"])
            .args(["--conf", &format!("spark.connect.grpc.binding.port={port}")])
            .args(["--conf", "spark.connect.grpc.binding.address=127.0.0.1"])
            .args(["--conf", "spark.sql.shuffle.partitions=1"])
            .arg("spark-internal")
            .env("SPARK_HOME", &home)
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ends = Instant::now() + Duration::from_mins(3);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < ends, "Spark does not start");
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(Self {
            server,
            port,
            _dir: dir,
        })
    }
}

impl Drop for Spark {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_cluster_by_spark_connect() {
    let Some(server) = Spark::start() else {
        return;
    };
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let url = format!("sc://127.0.0.1:{}", server.port);
    sponde.configure(&format!(
        "[databases.lake]\nurl = \"{url}\"\nalways = true\nseconds = 120\nrows = 1000\n\
         [databases.open]\nurl = \"{url}\"\nalways = true\nwrite = true\nseconds = 120\n"
    ));
    sponde.write("cities.csv", "city,name\n0,Oslo\n1,Rome\n2,Bern\n");
    let shown = chat(
        &sponde,
        "%%sql made --in open\\\nCREATE TABLE sold AS SELECT id, CAST(id % 3 AS INT) AS city, CAST(id AS DOUBLE) AS amount FROM range(900)\n\
         %%sql sales\\\nSELECT name, sum(amount) AS total FROM lake.sold JOIN 'cities.csv' USING (city) WHERE id < 30 GROUP BY ALL ORDER BY ALL\n\
         !print(sales.values.tolist())\n\
         %%sql x --in lake\\\nDROP TABLE sold\n\
         %%sql many --in lake\\\nSELECT id FROM range(100000)\n\
         %%sql x --in lake\\\nSELECT count(*) AS n FROM sold\n\
         !print('sold', x['n'][0])\n",
    );
    assert_shows(
        &shown,
        &[
            "[['Bern', 155.0], ['Oslo', 135.0], ['Rome', 145.0]]",
            "SqlError: lake: `drop`: it is read-only",
            "many: the first 1000 rows, there are more",
            "sold 900",
        ],
    );
}
