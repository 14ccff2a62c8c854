//! Numbers for Prometheus (text format 0.0.4).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::state::Shared;

/// All metrics.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let one = |value: usize| vec![(String::new(), value as u64)];
    let live = shared.registry.list();
    let doing = |is: fn(&crate::app::registry::Activity) -> bool| {
        live.iter().filter(|it| is(&it.activity())).count()
    };
    family(
        "sponde_sessions",
        "gauge",
        "Sessions that run.",
        &one(live.len()),
    );
    let busy = one(doing(|it| it.is_busy));
    family(
        "sponde_sessions_busy",
        "gauge",
        "Sessions with a running turn.",
        &busy,
    );
    let pending = one(doing(|it| it.is_pending));
    family(
        "sponde_sessions_pending",
        "gauge",
        "Sessions that wait for a person.",
        &pending,
    );
    let clients = one(live.iter().map(|it| it.clients()).sum());
    family(
        "sponde_clients",
        "gauge",
        "Clients that follow a session.",
        &clients,
    );
    let counters = &shared.counters;
    let answers: Vec<(String, u64)> = counters
        .answers
        .iter()
        .zip(1..)
        .map(|(counter, class)| {
            let count = counter.load(Ordering::Relaxed);
            (format!("{{status=\"{class}xx\"}}"), count)
        })
        .collect();
    family(
        "sponde_http_responses_total",
        "counter",
        "Answers by status.",
        &answers,
    );
    let wrong = vec![(String::new(), counters.wrong_tokens.load(Ordering::Relaxed))];
    family(
        "sponde_wrong_tokens_total",
        "counter",
        "Wrong tokens.",
        &wrong,
    );
    let uptime = vec![(String::new(), shared.started.elapsed().as_secs())];
    family(
        "sponde_uptime_seconds",
        "gauge",
        "Seconds since the start.",
        &uptime,
    );
    if let Some(bytes) = resident() {
        let memory = vec![(String::new(), bytes)];
        family(
            "process_resident_memory_bytes",
            "gauge",
            "Memory of the server itself.",
            &memory,
        );
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Our resident memory (proc(5), `statm`).
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}
