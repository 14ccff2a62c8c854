//! Names of sandbox ports: the SDKs' `get_host(port)` makes `PORT-SANDBOX.DOMAIN` without asking the server, and a request
//! under that name can arrive here (`E2B_DOMAIN`, a proxy). It gets an error that says what to do, and reaches no route.

use axum::http::StatusCode;

use super::failure::E2bFailure;

/// The ports of E2B's own daemons in a sandbox: files and commands, code. Our routes stand for both.
const DAEMONS: [u16; 2] = [49983, 49999];
/// The longest id that is taken for one of a sandbox.
const ID: usize = 64;

/// Why a request with this `Host` is not answered, if it names a port of a sandbox. Only the form of the name counts: the
/// answer does not tell whether there is such a sandbox.
pub(in crate::server) fn refuse_port(host: &str) -> Option<E2bFailure> {
    let port = port_of(host)?;
    let message = if DAEMONS.contains(&port) {
        "Sponde does not answer under names of sandboxes: set E2B_SANDBOX_URL to the URL of this server with the path /e2b \
         (docs/e2b.md)"
            .to_owned()
    } else {
        format!(
            "port {port} of a sandbox cannot be reached from outside the sandbox: Sponde does not forward ports. Send the request \
             to http://localhost:{port} in the same kernel or command that listens there (docs/e2b.md)"
        )
    };
    Some(E2bFailure::new(StatusCode::NOT_IMPLEMENTED, message))
}

/// The port in `PORT-SANDBOX.DOMAIN`.
fn port_of(host: &str) -> Option<u16> {
    let (label, domain) = host.split_once('.')?;
    let (port, id) = label.split_once('-')?;
    let is_number = !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit());
    let is_id = !id.is_empty()
        && id.len() <= ID
        && id
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || it == b'_');
    let port = port.parse().ok().filter(|port| *port != 0);
    port.filter(|_| is_number && is_id && !domain.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_get_host_makes_are_ports() {
        for (host, port) in [
            ("3000-i0123456789abcdef0123.e2b.app", Some(3000)),
            ("49999-ixyz.localhost:8800", Some(49999)),
            ("3000-debug_sandbox_id.localhost", Some(3000)),
            ("localhost:3000", None),
            ("127.0.0.1:3000", None),
            ("3000-ixyz", None),
            ("3000-ixyz.", None),
            ("3000-.e2b.app", None),
            ("-ixyz.e2b.app", None),
            ("+300-ixyz.e2b.app", None),
            ("0-ixyz.e2b.app", None),
            ("65536-ixyz.e2b.app", None),
            ("3000-a/b.e2b.app", None),
            ("x3000-ixyz.e2b.app", None),
            ("evil.3000-ixyz.e2b.app", None),
            ("", None),
        ] {
            assert_eq!(port_of(host), port, "{host}");
        }
    }
}
