//! SQL with a real MariaDB, through SQLAlchemy: a join with a file and a frame, what is refused, a limit of time, and that a
//! password is seen by nobody.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::sql::{FRAME, PASSWORD, PLAIN, as_nobody, files, files_with, model, program, python};
use crate::support::{Sponde, not_tested};

/// A server of our own, as an ordinary person, gone when dropped.
struct MariaDb {
    dir: tempfile::TempDir,
    port: u16,
    server: Child,
}

impl MariaDb {
    /// `None` where there is no such program, which is said.
    fn start() -> Option<Self> {
        let server = program("mariadbd").or_else(|| {
            let usual = PathBuf::from("/usr/sbin/mariadbd");
            usual.exists().then_some(usual)
        });
        let (Some(server), Some(install)) = (server, program("mariadb-install-db")) else {
            not_tested("SQL with MariaDB: `mariadbd` is not here (Debian: mariadb-server)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), everybody).unwrap();
        let data = dir.path().join("data");
        let made = as_nobody(&install)
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .arg("--skip-test-db")
            .arg(format!("--datadir={}", data.display()))
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}{}",
            String::from_utf8_lossy(&made.stdout),
            String::from_utf8_lossy(&made.stderr)
        );
        let port = {
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let server = as_nobody(&server)
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", dir.path().join("s").display()))
            .arg(format!("--pid-file={}", dir.path().join("pid").display()))
            .arg(format!("--port={port}"))
            .args(["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=16M"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { dir, port, server };
        let ends = Instant::now() + Duration::from_mins(1);
        while let Err(error) = server.root("cursor.execute('SELECT 1')") {
            assert!(Instant::now() < ends, "the server does not start: {error}");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(server)
    }

    /// Runs code that has a `cursor` of the server's own user; what it printed.
    fn root(&self, code: &str) -> Result<String, String> {
        let socket = self.dir.path().join("s");
        let code = format!(
            "import pymysql\nwith pymysql.connect(unix_socket={:?}, user='root', autocommit=True) as connection:\n    \
             cursor = connection.cursor()\n    {}",
            socket.display().to_string(),
            code.replace('\n', "\n    ")
        );
        python(&code, "")
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_is_read_and_nothing_else() {
    let Some(server) = MariaDb::start() else {
        return;
    };
    let fill = format!(
        "cursor.execute('CREATE DATABASE shop')\n\
         cursor.execute('USE shop')\n\
         cursor.execute(\"CREATE USER ada@'127.0.0.1' IDENTIFIED BY '{PLAIN}'\")\n\
         cursor.execute(\"GRANT ALL ON shop.* TO ada@'127.0.0.1'\")\n\
         cursor.execute('CREATE TABLE customers (id int PRIMARY KEY, name varchar(20), city varchar(20))')\n\
         cursor.execute(\"CREATE TABLE orders (id int PRIMARY KEY, customer_id int, amount decimal(10,2) COMMENT 'in euro', \
         at datetime, FOREIGN KEY (customer_id) REFERENCES customers(id)) COMMENT 'What was sold'\")\n\
         cursor.execute(\"INSERT INTO customers SELECT seq, concat('c', seq), if(seq % 2, 'Rome', 'Oslo') FROM seq_1_to_100\")\n\
         cursor.execute(\"INSERT INTO orders SELECT seq, 1 + seq % 100, 2, '2024-01-01' + INTERVAL seq HOUR FROM seq_1_to_5000\")\n\
         cursor.execute('CREATE FUNCTION takes_all() RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM orders; RETURN 1; END')"
    );
    server.root(&fill).unwrap();
    let mock = model(&[
        (FRAME, None),
        (
            "%%sql sales\nSELECT c.city, f.country, sum(o.amount) AS total, count(b.bonus) AS bonuses FROM shop.orders o \
             JOIN shop.customers c ON c.id = o.customer_id JOIN 'countries.csv' f ON f.city = c.city \
             LEFT JOIN bonus b ON b.name = c.name WHERE o.id <= 1000 GROUP BY ALL ORDER BY c.city",
            Some("sql"),
        ),
        (
            "%%sql late --in shop\nSELECT DATE_FORMAT(max(at), '%Y-%m-%d') AS day, sum(amount) AS total FROM orders",
            Some("sql"),
        ),
        ("%%sql x --in shop\nDELETE FROM orders", Some("sql")),
        ("%%sql x --in shop\nSELECT takes_all()", Some("sql")),
        ("%%sql x --in shop\nSELECT 1; DELETE FROM orders", Some("sql")),
        ("%%sql x --in shop\nSELECT SLEEP(60)", Some("sql")),
        ("%%sql x --in shop\nSELECT count(*) FROM orders a, orders b, orders c", Some("sql")),
    ])
    .await;
    let url = format!("mysql://ada:{PASSWORD}@127.0.0.1:{}/shop", server.port);
    let sponde = Sponde::new().with_model(&mock).with("SHOP_URL", &url);
    sponde.configure("[databases.shop]\nurl-env = \"SHOP_URL\"\nseconds = 5\n");
    files(&sponde);
    let ended = sponde.run(&[
        "ask",
        "how much was sold?",
        "--model",
        "gpt-4o",
        "--yes",
        "-vvv",
        "--database",
        "shop",
        "--notebook",
        "sales.ipynb",
    ]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    for words in [
        "sales: 2 rows, 4 columns",
        "0  Oslo      NO  1000.0       10",
        "1  Rome      IT  1000.0       10",
        "2024-07-27  10000.0",
        "SqlError: shop: `delete`: it is read-only",
        "READ ONLY transaction",
        "SqlError: shop: it took longer than",
        "SqlError: shop: the planner expects a cost of",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let counted =
        server.root("cursor.execute('SELECT count(*) FROM shop.orders')\nprint(cursor.fetchone())");
    assert_eq!(counted.unwrap(), "(5000,)\n");
    let prompts = json!(mock.journal().await).to_string();
    mock.stop().await;
    for words in [
        "Database shop (mysql",
        "Table orders: about 5",
        "What was sold",
        "refers to customers.id",
        "in euro",
    ] {
        assert!(prompts.contains(words), "{words}: {prompts}");
    }
    for (what, text) in [("screen", &shown), ("prompts", &prompts)] {
        for secret in [PASSWORD, PLAIN] {
            assert!(!text.contains(secret), "{what}: {text}");
        }
    }
    let all = sponde.path("..");
    assert_eq!(files_with(&all, &[PASSWORD, PLAIN]), Vec::<PathBuf>::new());
}
