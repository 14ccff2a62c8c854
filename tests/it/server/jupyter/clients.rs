//! Clients that others wrote, as they are: each runs code, gets a plot, and stops code that does not end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::{Server, with_model};
use crate::browser::Browser;
use crate::support::{Sponde, tools};

/// Runs a script of `tests/fixtures/jupyter` in the environment of the clients, and reads what it prints.
fn run(script: &str, server: &str, token: &str, sponde: &Sponde) -> Value {
    run_for(script, server, token, "", sponde)
}

/// The same for a kernel that is there.
fn run_for(script: &str, server: &str, token: &str, kernel: &str, sponde: &Sponde) -> Value {
    let out = sponde.path("out");
    std::fs::create_dir_all(&out).unwrap();
    let _ = std::fs::remove_file(out.join("started"));
    let program = if script.contains(".mjs") {
        PathBuf::from("node")
    } else {
        tools().join("jupyter-clients/bin/python")
    };
    assert!(
        !program.is_absolute() || program.exists(),
        "there is no `{}`: run scripts/test once, it installs what the tests need",
        program.display()
    );
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/jupyter");
    let output = Command::new("timeout")
        .arg("180")
        .arg(program)
        .arg(fixtures.join(script))
        .envs([("SERVER", server), ("TOKEN", token), ("KERNEL", kernel)])
        .env("NODE_TOOLS", tools())
        .env("OUT", &out)
        .env(
            "CODE_INTERPRETER",
            tools().join("open-webui/code_interpreter.py"),
        )
        .env("HOME", sponde.path("out"))
        .env_remove("http_proxy")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| panic!("{script}: {text}\n{errors}"))
}

/// What `kernel_client.py` sees of a kernel.
fn of_kernel_client() -> Value {
    json!({
        "status": "ok",
        "outputs": [
            {"output_type": "stream", "text": "23\n"},
            {"output_type": "execute_result", "data": {"text/plain": "20"}},
        ],
        "plot": ["image/png", "text/plain"],
        "error": ["ZeroDivisionError"],
        "interrupted": ["KeyboardInterrupt"],
        "kept": "20",
        "restarted": ["NameError"],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_others_run_code_get_plots_and_interrupt() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let url = format!("{}/jupyter", server.base);
    let run = |script| tokio::task::block_in_place(|| run(script, &url, &server.token, &sponde));
    assert_eq!(run("kernel_client.py"), of_kernel_client());
    assert_eq!(
        run("autogen_executor.py"),
        json!({
            "run": [0, "\n23\n"],
            "plot": [".png"],
            "error": [1, true],
            "restarted": [1, true],
            "timeout": [1, true],
        })
    );
    assert_eq!(
        run("smolagents_executor.py"),
        json!({
            "run": ["23", "hello\n"],
            "plot": ["PIL", [640, 480], true],
            "error": true,
            "interrupted": true,
            "kept": "20",
        })
    );
    // Some of those give up without ending their kernel; Open WebUI does not.
    let (_, before) = server.get("/jupyter/api/kernels").await;
    assert_eq!(
        run("open_webui_executor.py"),
        json!({
            "run": {"stdout": "23", "stderr": "", "result": "42"},
            "plot": "data:image/png;",
            "error": true,
            "stopped": "Execution timed out.",
        })
    );
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(kernels, before);
    assert_eq!(server.end().code, Some(0));
}

/// ipybox's client, which knows neither a path nor a token, behind a proxy that adds both.
#[tokio::test(flavor = "multi_thread")]
async fn ipyboxs_client_runs_code_behind_a_proxy() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let url = format!("{}/jupyter", server.base);
    let seen = tokio::task::block_in_place(|| {
        let proxy = Proxy::start(&url, &server.token);
        run("ipybox_client.py", &proxy.url, "", &sponde)
    });
    assert_eq!(
        seen,
        json!({
            "run": "23",
            "plot": ["PNG"],
            "error": "ZeroDivisionError",
            "interrupted": true,
            "kept": "20",
            "reset": "NameError",
        })
    );
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(kernels, json!([]), "its kernels end with it");
    assert_eq!(server.end().code, Some(0));
}

/// `proxy.py`, ended when dropped.
struct Proxy {
    child: Child,
    url: String,
}

impl Proxy {
    fn start(server: &str, token: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/jupyter/proxy.py");
        let mut child = Command::new(tools().join("jupyter-clients/bin/python"))
            .arg(script)
            .envs([("SERVER", server), ("TOKEN", token)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut url).unwrap();
        Self {
            child,
            url: url.trim().to_owned(),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `jupyter server --gateway-url`, with which JupyterLab reaches us too; its client is PyPI's jupyter-kernel-client.
#[tokio::test(flavor = "multi_thread")]
async fn jupyter_server_reaches_us_as_its_gateway() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let gateway = JupyterServer::start("gateways/bin/jupyter-server", &server, &sponde, &[]);
    let seen = tokio::task::block_in_place(|| {
        gateway.wait();
        run("kernel_client.py", &gateway.url, "of-the-tests", &sponde)
    });
    assert_eq!(seen, of_kernel_client());
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(kernels, json!([]), "its kernels end with its clients");
    drop(gateway);
    assert_eq!(server.end().code, Some(0));
}

/// The kernel of a session, by its id: what a client runs there is the person's own cell.
#[tokio::test(flavor = "multi_thread")]
async fn a_sessions_kernel_is_used_by_a_client_of_others() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    server.run(&session, "x = 41").await;
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    let kernel = kernels[0]["id"].as_str().unwrap();
    let url = format!("{}/jupyter", server.base);
    let seen = tokio::task::block_in_place(|| {
        run_for("session_kernel.py", &url, &server.token, kernel, &sponde)
    });
    assert_eq!(seen, json!([true, "ok", ["from outside 42\n"]]));
    let (_, notebook) = server.get(&format!("{session}/notebook.ipynb")).await;
    let cells: Vec<(&Value, &Value)> = notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["cell_type"] == "code")
        .map(|it| (&it["source"], &it["metadata"]["sponde"]["role"]))
        .collect();
    let code = json!(["print('from outside', x + 1)"]);
    assert_eq!(
        cells,
        [
            (&json!(["x = 41"]), &json!("user")),
            (&code, &json!("user"))
        ]
    );
    // It goes on when the client has gone.
    assert_eq!(server.get(&session).await.0, 200);
    assert_eq!(server.end().code, Some(0));
}

/// JupyterLab's library without JupyterLab: contents, checkpoints, sessions, kernels.
#[tokio::test(flavor = "multi_thread")]
async fn jupyterlabs_library_keeps_and_runs_notebooks_here() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let url = format!("{}/jupyter", server.base);
    let seen = tokio::task::block_in_place(|| run("services.mjs", &url, &server.token, &sponde));
    assert_eq!(
        seen,
        json!({
            "made": ["Untitled.ipynb", "notebook"],
            "emptied": 0,
            "restored": ["print('sum', 20 + 3)"],
            "renamed": ["renamed.ipynb", ["renamed.ipynb"]],
            "copied": "renamed-Copy1.ipynb",
            "default": "python3",
            "reply": "ok",
            "outputs": "sum 23\n",
            "interrupted": "KeyboardInterrupt",
            "listed": ["again.ipynb"],
            "left": 0,
        })
    );
    assert_eq!(server.end().code, Some(0));
}

/// Clients that know connection files only, nbclient and jupyter console: their kernel is `sponde kernel-proxy --gateway`.
#[tokio::test(flavor = "multi_thread")]
async fn clients_of_local_kernels_reach_us_by_a_kernelspec() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let far = json!({
        "argv": [
            assert_cmd::cargo::cargo_bin!("sponde"), "kernel-proxy", "--kernel", "python3",
            "--gateway", format!("{}/jupyter", server.base), "-f", "{connection_file}",
        ],
        "env": {"SPONDE_GATEWAY_TOKEN": server.token},
        "display_name": "Python 3 of a server",
        "language": "python",
    });
    sponde.add_kernelspec("far", &far.to_string());
    let output = tokio::task::block_in_place(|| {
        Command::new("timeout")
            .args(["240"])
            .arg(tools().join("python/bin/python"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/jupyter/proxied.py"))
            .env("HOME", sponde.path(""))
            .env("JUPYTER_PATH", sponde.path("../data/jupyter"))
            .env("JUPYTER_PLATFORM_DIRS", "1")
            .env(
                "JUPYTER_RUNTIME_DIR",
                sponde.path("../data/jupyter/runtime"),
            )
            .env_remove("http_proxy")
            .output()
            .unwrap()
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        seen,
        json!({
            "nbclient": [
                ["sum 23\n"],
                [["image/png", "text/plain"]],
                ["begun\n", "KeyboardInterrupt"],
                [["text/plain"]],
            ],
            "console": {"sum 23": true, "KeyboardInterrupt": true, "kept 42": true},
            "picture": "PNG",
            "status": 0,
        }),
        "{errors}"
    );
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(kernels, json!([]), "its kernels end with its clients");
    assert_eq!(server.end().code, Some(0));
}

/// JupyterLab's page in a browser, whose kernels are ours: cells run, there is a plot, and an endless cell is stopped.
#[tokio::test(flavor = "multi_thread")]
async fn jupyterlab_runs_notebooks_with_our_kernels() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let code = |source: &str| json!({"cell_type": "code", "id": source.len().to_string(), "metadata": {}, "source": source, "outputs": [], "execution_count": null});
    let notebook = json!({
        "cells": [
            code("x = 20\nprint('sum', x + 3)"),
            code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"),
            code("print('begun', flush=True)\nwhile True: pass"),
            code("print('kept', x + 22)"),
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4, "nbformat_minor": 5,
    });
    std::fs::create_dir_all(sponde.path("jupyter")).unwrap();
    sponde.write("jupyter/test.ipynb", notebook.to_string());
    let lab = JupyterServer::start(
        "jupyterlab/bin/jupyter-lab",
        &server,
        &sponde,
        &[
            "--LabApp.news_url=None",
            "--LabApp.expose_app_in_browser=True",
        ],
    );
    tokio::task::block_in_place(|| lab.wait());
    let mut page = browser
        .open(&format!(
            "{}/lab/tree/test.ipynb?token=of-the-tests",
            lab.url
        ))
        .await;
    page.until("document.querySelectorAll('.jp-Notebook .jp-CodeCell').length === 4")
        .await;
    // The page connects twice: a gateway's jupyter_server does not take the first subprotocol it asks for, and
    // JupyterLab forgets a cell that somebody runs in between. What the page shows as idle says nothing of it.
    let idle = "(({connectionStatus, status}) => connectionStatus === 'connected' && status === 'idle')\
        ([...jupyterapp.shell.widgets('main')].find((it) => it.sessionContext).sessionContext.session.kernel)";
    page.until(idle).await;
    page.click(".jp-Notebook .jp-CodeCell .jp-InputPrompt")
        .await;
    page.key("shift+Enter").await;
    let output = |at: usize| {
        format!(
            "document.querySelectorAll('.jp-Notebook .jp-CodeCell')[{at}]?.querySelector('.jp-Cell-outputWrapper')?.innerText ?? ''"
        )
    };
    page.until(&format!("({}).includes('sum 23')", output(0)))
        .await;
    page.key("shift+Enter").await;
    page.until("document.querySelector('.jp-Notebook .jp-RenderedImage img')?.naturalWidth > 100")
        .await;
    page.key("shift+Enter").await;
    page.until(&format!("({}).includes('begun')", output(2)))
        .await;
    // Twice, in command mode.
    page.key("Escape").await;
    page.key("i").await;
    page.key("i").await;
    page.until(&format!("({}).includes('KeyboardInterrupt')", output(2)))
        .await;
    page.until(idle).await;
    page.key("shift+Enter").await;
    page.until(&format!("({}).includes('kept 42')", output(3)))
        .await;
    // The kernel is ours.
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(kernels.as_array().unwrap().len(), 1, "{kernels}");
    drop(lab);
    assert_eq!(server.end().code, Some(0));
}

/// A jupyter_server, or JupyterLab, whose kernels are another server's.
struct JupyterServer {
    child: Child,
    url: String,
    log: PathBuf,
}

impl JupyterServer {
    fn start(program: &str, server: &Server<'_>, sponde: &Sponde, arguments: &[&str]) -> Self {
        let gateway = format!("{}/jupyter", server.base);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = port.local_addr().unwrap().port();
        let dir = sponde.path("jupyter");
        std::fs::create_dir_all(&dir).unwrap();
        let log = dir.join("log");
        let child = Command::new(tools().join(program))
            .args(["--no-browser", "--allow-root", "--ServerApp.port_retries=0"])
            .args(arguments)
            .arg(format!("--ServerApp.port={port}"))
            .arg("--ServerApp.root_dir=.")
            .current_dir(&dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &dir)
            .env("JUPYTER_GATEWAY_URL", gateway)
            .env("JUPYTER_GATEWAY_AUTH_TOKEN", &server.token)
            .env("JUPYTER_TOKEN", "of-the-tests")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            url: format!("http://127.0.0.1:{port}"),
            log,
        }
    }

    fn wait(&self) {
        let begun = Instant::now();
        loop {
            let log = std::fs::read_to_string(&self.log).unwrap();
            if log.contains("is running at") {
                return;
            }
            assert!(begun.elapsed() < Duration::from_mins(2), "{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for JupyterServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            // What the harness shows of a test that failed.
            let _ = writeln!(std::io::stderr(), "what `{}` said:\n{log}", self.url);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
