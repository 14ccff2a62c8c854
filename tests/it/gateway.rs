//! Kernels of real Jupyter servers: jupyter_server, Kernel Gateway and Enterprise Gateway, on this machine.

pub(crate) mod server;

use std::time::Duration;

use sponde::jupyter::kernelspec::KernelSpec;
use sponde::kernel::gateway::{Gateway, GatewayError};
use sponde::kernel::{
    ExecuteOptions, Execution, ExecutionEvent, ExitReason, GatewayOptions, Kernel, KernelError,
    KernelSource, KernelState, LaunchOptions, Outcome, OutputEvent, Verdict,
};

use crate::support::{NOBODY, Sponde, assert_is_valid_notebook, launch_options};
use server::{Kind, Proxy, Server, TOKEN};

fn ok(count: i64) -> Outcome {
    Outcome {
        verdict: Verdict::Ok,
        count: Some(count),
    }
}

/// What to launch at a gateway, with a directory that must stay until then.
fn at(gateway: GatewayOptions) -> LaunchOptions {
    let source = KernelSource {
        name: "python3".to_owned(),
        spec: KernelSpec {
            argv: Vec::new(),
            display_name: "Python 3".to_owned(),
            language: "python".to_owned(),
            interrupt_mode: sponde::jupyter::kernelspec::InterruptMode::Signal,
            env: std::collections::BTreeMap::new(),
            metadata: serde_json::Map::new(),
        },
        resource_dir: std::path::PathBuf::new(),
        prefix: None,
    };
    LaunchOptions {
        gateway: Some(gateway),
        ..launch_options(source, &std::env::temp_dir())
    }
}

async fn start(server: &Server) -> Kernel {
    Kernel::launch(at(server.options())).await.unwrap()
}

async fn begin(kernel: &Kernel, code: &str) -> Execution {
    kernel.execute(ExecuteOptions::cell(code)).await.unwrap()
}

async fn run(kernel: &Kernel, code: &str) -> (Vec<OutputEvent>, Outcome) {
    begin(kernel, code).await.collect().await
}

/// All text on stdout, whatever the number of messages it came in.
fn printed(outputs: &[OutputEvent]) -> String {
    outputs
        .iter()
        .filter_map(|output| match output {
            OutputEvent::Stream(stream) if stream.name == "stdout" => Some(stream.text.as_str()),
            _ => None,
        })
        .collect()
}

/// Reads events until `text` has been printed; gives back what was printed so far.
async fn until_printed(execution: &mut Execution, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        match execution.next().await.unwrap() {
            ExecutionEvent::Output(OutputEvent::Stream(stream)) => seen.push_str(&stream.text),
            ExecutionEvent::Started { .. } => {}
            other => panic!("{other:?} instead of {text:?}"),
        }
    }
    seen
}

/// Cells, errors, pictures, input.
async fn talk(kernel: &Kernel) {
    assert_eq!(run(kernel, "x = 20").await, (vec![], ok(1)));
    let (outputs, outcome) = run(kernel, "print(x + 3, 'größe')").await;
    assert_eq!((printed(&outputs).as_str(), outcome), ("23 größe\n", ok(2)));
    let (outputs, outcome) = run(kernel, "1/0").await;
    assert_eq!(
        outcome.verdict,
        Verdict::Error {
            ename: "ZeroDivisionError".to_owned(),
            evalue: "division by zero".to_owned()
        }
    );
    assert!(
        matches!(&outputs[..], [OutputEvent::Error(error)] if !error.traceback.is_empty()),
        "{outputs:?}"
    );
    // The smallest PNG there is, and a larger one of 3 MB, whole.
    let picture = "from IPython.display import Image, display\n\
        display(Image(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(3_000_000), format='png'))";
    let (outputs, outcome) = run(kernel, picture).await;
    assert_eq!(outcome, ok(4));
    let [OutputEvent::Display { data, .. }] = &outputs[..] else {
        panic!("{} outputs", outputs.len());
    };
    let png = data.text_of("image/png").unwrap();
    assert_eq!(png.trim_end().len(), 3_000_008_usize.div_ceil(3) * 4);
    let mut execution = kernel
        .execute(ExecuteOptions {
            allow_stdin: true,
            ..ExecuteOptions::cell("print(input('name? ') + '!')")
        })
        .await
        .unwrap();
    let id = execution.id.clone();
    let mut outputs = Vec::new();
    while let Some(event) = execution.next().await {
        match event {
            ExecutionEvent::InputRequested(request) => {
                assert_eq!(request.prompt, "name? ");
                kernel.reply(&id, "Ada".to_owned()).await.unwrap();
            }
            ExecutionEvent::Output(output) => outputs.push(output),
            ExecutionEvent::Finished(outcome) => assert_eq!(outcome, ok(5)),
            ExecutionEvent::Started { .. }
            | ExecutionEvent::Comm(_)
            | ExecutionEvent::StillRunning { .. } => {}
        }
    }
    assert_eq!(printed(&outputs), "Ada!\n");
}

/// An endless cell is interrupted and variables are kept; a restart loses them.
async fn interrupt_and_restart(kernel: &Kernel) {
    let mut execution = begin(
        kernel,
        "print('on', flush=True)\nimport time\nwhile True: time.sleep(0.01)",
    )
    .await;
    until_printed(&mut execution, "on\n").await;
    kernel.interrupt().await.unwrap();
    let (_, outcome) = execution.collect().await;
    assert_eq!(outcome.verdict, Verdict::Interrupted);
    assert_eq!(
        printed(&run(kernel, "print(x)").await.0),
        "20\n",
        "variables are kept"
    );
    let mut execution = begin(
        kernel,
        "print('on', flush=True)\nimport time\ntime.sleep(1000)",
    )
    .await;
    until_printed(&mut execution, "on\n").await;
    kernel.restart().await.unwrap();
    let (_, outcome) = execution.collect().await;
    assert_eq!(
        outcome.verdict,
        Verdict::KernelDied(ExitReason::Requested),
        "who waits is told that the state is lost"
    );
    let (_, outcome) = run(kernel, "x").await;
    assert_eq!(
        outcome,
        Outcome {
            verdict: Verdict::Error {
                ename: "NameError".to_owned(),
                evalue: "name 'x' is not defined".to_owned()
            },
            count: Some(1),
        }
    );
}

/// A kernel whose process dies is started again by the server: that is a loss of state, and told as such.
async fn die_and_come_back(kernel: &Kernel) {
    run(kernel, "y = 1").await;
    let (_, outcome) = run(
        kernel,
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    )
    .await;
    let reason = ExitReason::Gone("its process died and the gateway started it again".to_owned());
    assert_eq!(outcome.verdict, Verdict::KernelDied(reason.clone()));
    assert_eq!(kernel.state(), KernelState::Dead(reason));
    kernel.restart().await.unwrap();
    let (_, outcome) = run(kernel, "y").await;
    assert!(
        matches!(&outcome.verdict, Verdict::Error { ename, .. } if ename == "NameError"),
        "{outcome:?}"
    );
}

/// The connection is cut in the middle of a cell that goes on to print; all lines arrive, once and in order.
async fn lose_the_connection(server: &Server) {
    let proxy = Proxy::before(server).await;
    let kernel = Kernel::launch(at(server::options(&proxy.url())))
        .await
        .unwrap();
    let signs = tempfile::tempdir().unwrap();
    let (cut, printed_unheard) = (signs.path().join("cut"), signs.path().join("printed"));
    let lines: String = (0..300)
        .flat_map(|n| [n.to_string(), "\n".to_owned()])
        .collect();
    let code = format!(
        "import os, time\n\
        for n in range(300):\n\
        \x20   print(n, flush=True); time.sleep(0.001)\n\
        \x20   if n == 99:\n\
        \x20       while not os.path.exists('{}'): time.sleep(0.01)\n\
        \x20   if n == 199: open('{}', 'w')\n\
        'end'",
        cut.display(),
        printed_unheard.display()
    );
    let mut execution = begin(&kernel, &code).await;
    let mut text = until_printed(&mut execution, "\n99\n").await;
    proxy.cut();
    proxy.is_cut().await;
    std::fs::write(&cut, "").unwrap();
    server::until(|| printed_unheard.exists()).await;
    proxy.heal();
    text += &until_printed(&mut execution, "\n210\n").await;
    let (outputs, outcome) = execution.collect().await;
    text += &printed(&outputs);
    assert_eq!(text, lines);
    assert_eq!(outcome, ok(1));
    assert!(
        matches!(outputs.last(), Some(OutputEvent::Result { data, .. }) if data.text_of("text/plain").as_deref() == Some("'end'")),
        "{:?}",
        outputs.last()
    );
    let websockets = proxy.websockets();
    assert_eq!(websockets.len(), 2, "{websockets:?}");
    assert!(
        websockets.iter().all(|line| *line == websockets[0]),
        "{websockets:?}"
    );
    assert!(!websockets[0].contains(TOKEN), "{websockets:?}");
    assert_eq!(run(&kernel, "n").await.1, ok(2));
    kernel.shutdown().await;
}

/// Cut while messages are on their way, again and again: what a server was just sending it does not keep. Every line
/// comes once and in order, and where one is missing that is said.
async fn lose_the_connection_at_the_worst_time(server: &Server) {
    let proxy = Proxy::before(server).await;
    let kernel = Kernel::launch(at(server::options(&proxy.url())))
        .await
        .unwrap();
    for round in 1..=3 {
        // A line in one write, so that what is lost is a line and not its end.
        let code = "import sys, time\nfor n in range(600): sys.stdout.write(f'{n}\\n'); sys.stdout.flush(); time.sleep(0.002)\nprint('end')";
        let mut execution = begin(&kernel, code).await;
        let mut text = until_printed(&mut execution, "\n20\n").await;
        for line in ["\n100\n", "\n300\n", "\n500\n"] {
            proxy.cut();
            proxy.heal();
            // Any line of that hundred: a single one may be lost.
            text += &until_printed(&mut execution, &line[..2]).await;
        }
        let (outputs, outcome) = execution.collect().await;
        text += &printed(&outputs);
        assert_eq!(outcome, ok(round));
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{text}");
        let said = outputs
            .iter()
            .any(|output| matches!(output, OutputEvent::Lost(_)));
        let complete = numbers.len() == 600 && text.ends_with("end\n");
        assert_eq!(complete, !said, "{} lines, {outputs:?}", numbers.len());
    }
    kernel.shutdown().await;
}

/// What every server must do.
async fn everything(kind: Kind) {
    let server = Server::start(kind).await;
    let kernel = start(&server).await;
    talk(&kernel).await;
    interrupt_and_restart(&kernel).await;
    die_and_come_back(&kernel).await;
    kernel.shutdown().await;
    assert_eq!(kernel.state(), KernelState::Dead(ExitReason::Requested));
    lose_the_connection(&server).await;
    lose_the_connection_at_the_worst_time(&server).await;
    wrong_token(&server).await;
}

async fn wrong_token(server: &Server) {
    for token in [Some("wrong-token"), None] {
        let options = GatewayOptions::parse(&server.url(), token.map(str::to_owned)).unwrap();
        let error = Kernel::launch(at(options)).await.unwrap_err();
        let KernelError::Gateway { error, .. } = error else {
            panic!("{error:?}");
        };
        assert!(
            matches!(&error, GatewayError::Unauthorized { doing: "start a kernel", url, status: 401 | 403, with_token }
                if *url == server.url() && *with_token == token.is_some()),
            "{error:?}"
        );
        assert!(!format!("{error:?} {error}").contains("wrong-token"));
    }
}

#[tokio::test]
async fn jupyter_server() {
    everything(Kind::JupyterServer).await;
}

#[tokio::test]
async fn kernel_gateway() {
    everything(Kind::KernelGateway).await;
}

#[tokio::test]
async fn enterprise_gateway() {
    everything(Kind::EnterpriseGateway).await;
}

#[tokio::test]
async fn enterprise_gateway_wants_a_name_that_is_not_root() {
    let server = Server::start(Kind::EnterpriseGateway).await;
    let mut options = at(server.options());
    options.env = vec![("KERNEL_USERNAME".to_owned(), "root".to_owned())];
    let error = Kernel::launch(options).await.unwrap_err();
    let KernelError::Gateway { error, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        error.hint().unwrap(),
        "set KERNEL_USERNAME to a name that Enterprise Gateway accepts; it refuses root"
    );
    let mut options = at(server.options());
    options.env = [
        ("KERNEL_NOTE", "hello"),
        ("KERNEL_API_TOKEN", "x"),
        ("OTHER", "x"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let kernel = Kernel::launch(options).await.unwrap();
    let code = "import os; print([os.environ.get(n) for n in ('KERNEL_USERNAME', 'KERNEL_NOTE', 'KERNEL_API_TOKEN', 'OTHER')])";
    assert_eq!(
        printed(&run(&kernel, code).await.0),
        "['test', 'hello', None, None]\n"
    );
    kernel.shutdown().await;
}

/// The server was not told that the connection is gone, so what it sent is lost: the cell ends all the same.
#[tokio::test]
async fn what_the_server_could_not_keep_is_missed_and_said() {
    let server = Server::start(Kind::JupyterServer).await;
    let proxy = Proxy::before(&server).await;
    let kernel = Kernel::launch(at(server::options(&proxy.url())))
        .await
        .unwrap();
    let go = tempfile::tempdir().unwrap();
    let go = go.path().join("go");
    let code = format!(
        "import os, time\nprint('a', flush=True)\nwhile not os.path.exists('{}'): time.sleep(0.01)\nprint('b')",
        go.display()
    );
    let mut execution = begin(&kernel, &code).await;
    until_printed(&mut execution, "a\n").await;
    proxy.swallow();
    std::fs::write(&go, "").unwrap();
    proxy
        .has_swallowed(&["\"execute_reply\"", "\"idle\""])
        .await;
    proxy.cut();
    proxy.heal();
    let (outputs, outcome) = execution.collect().await;
    assert_eq!(
        outputs,
        [OutputEvent::Lost(
            "the kernel never sent `idle`: some outputs may be missing".to_owned()
        )]
    );
    assert_eq!(
        outcome.verdict,
        Verdict::Error {
            ename: "ConnectionLost".to_owned(),
            evalue: "the connection to the gateway broke, and with it what the kernel said about this cell: \
                whether it ran to its end is not known"
                .to_owned(),
        }
    );
    let (outputs, outcome) = run(&kernel, "print('c')").await;
    assert_eq!((printed(&outputs).as_str(), outcome), ("c\n", ok(2)));
    kernel.shutdown().await;
}

/// A server that is not offered the binary protocol speaks JSON.
#[tokio::test]
async fn json_where_the_binary_protocol_is_not_known() {
    let server = Server::start(Kind::JupyterServer).await;
    let proxy = Proxy::before_without_subprotocols(&server).await;
    let kernel = Kernel::launch(at(server::options(&proxy.url())))
        .await
        .unwrap();
    assert_eq!(proxy.websockets().len(), 2, "with the protocol and without");
    talk(&kernel).await;
    interrupt_and_restart(&kernel).await;
    kernel.shutdown().await;
}

/// The server drops output above 1 MB/s by default; we say so, and the cell goes on.
#[tokio::test]
async fn output_that_the_server_drops_is_marked() {
    let server = Server::start(Kind::JupyterServer).await;
    let kernel = start(&server).await;
    let (outputs, outcome) = run(&kernel, "for n in range(60_000): print('x' * 99)").await;
    assert_eq!(outcome, ok(1));
    let lost: Vec<_> = outputs
        .iter()
        .filter_map(|output| match output {
            OutputEvent::Lost(words) => Some(words.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        lost,
        [
            "the gateway dropped output that came too fast (IOPub data rate exceeded); print less at a time, or raise its limit"
        ]
    );
    assert!(printed(&outputs).len() < 6_000_000);
    let (outputs, outcome) = run(&kernel, "print('on')").await;
    assert_eq!((printed(&outputs).as_str(), outcome), ("on\n", ok(2)));
    kernel.shutdown().await;
}

/// A kernel that its server ends behind our back, as culling does, is gone, and that is noticed while nothing runs.
#[tokio::test]
async fn a_culled_kernel_is_dead_and_can_be_started_again() {
    let server = Server::start(Kind::JupyterServer).await;
    let proxy = Proxy::before(&server).await;
    let kernel = Kernel::launch(at(server::options(&proxy.url())))
        .await
        .unwrap();
    let gateway = Gateway::new(server.options()).unwrap();
    gateway.delete(&proxy.kernel()).await.unwrap();
    let dead = async {
        loop {
            if let KernelState::Dead(reason) = kernel.state() {
                return reason;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let reason = tokio::time::timeout(Duration::from_mins(2), dead)
        .await
        .unwrap();
    assert!(
        reason
            .to_string()
            .ends_with("no longer has the kernel (it was culled or deleted)"),
        "{reason}"
    );
    kernel.restart().await.unwrap();
    let mut execution = begin(&kernel, "print('again')").await;
    until_printed(&mut execution, "again\n").await;
    assert_eq!(execution.collect().await.1, ok(1));
    kernel.shutdown().await;
}

#[tokio::test]
async fn a_server_is_asked_for_its_kernels() {
    let server = Server::start(Kind::KernelGateway).await;
    let gateway = Gateway::new(server.options()).unwrap();
    let specs = gateway.kernelspecs().await.unwrap();
    let named = |name: Option<&str>| specs.clone().find(name, &gateway);
    assert_eq!(named(None).unwrap().name, "python3");
    assert_eq!(named(None).unwrap().spec.language, "python");
    let error = named(Some("cobol")).unwrap_err();
    // The machine may have others.
    assert!(
        matches!(&error, GatewayError::NoSuchSpec { url, name, known }
            if *url == server.url() && name == "cobol" && known.contains(&"python3".to_owned())),
        "{error:?}"
    );
    // A path below which there is no Jupyter server.
    let elsewhere = server::options(&format!("{}nowhere/", server.url()));
    let error = Gateway::new(elsewhere)
        .unwrap()
        .kernelspecs()
        .await
        .unwrap_err();
    assert!(
        matches!(error, GatewayError::NotJupyter { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn the_program_runs_code_there() {
    let server = Server::start(Kind::KernelGateway).await;
    let url = server.url();
    let sponde = Sponde::new()
        .with("SPONDE_GATEWAY_TOKEN", TOKEN)
        .with("OPENAI_API_KEY", "none")
        .with("OPENAI_BASE_URL", NOBODY);
    let code = "import os; print(6 * 7, os.environ.get('KERNEL_USERNAME'))";
    let ended = sponde.run(&["run", "--gateway", &url, "-c", code, "-o", "out.ipynb"]);
    insta::assert_snapshot!(ended, @r"
    exit: 0
    --- stdout
    42 test
    ");
    assert!(!sponde.read("out.ipynb").contains(TOKEN));
    assert_is_valid_notebook(&sponde.path("out.ipynb"));
    // What confines code there is not ours to say.
    let chat = sponde.run(&[
        "--gateway",
        &url,
        "--model",
        "none",
        "--sandbox",
        "workspace",
    ]);
    let first = chat.stderr.lines().next().unwrap_or_default();
    assert_eq!(
        first, "sandbox: the gateway's, if it has one; ours does not reach there",
        "{}",
        chat.stderr
    );
    // As Jupyter prints it, and from the environment; a notebook asks for a kernel that only has another name there.
    sponde.write_notebook("in.ipynb", "my-python", &[("", "print('there')")]);
    let with_token = format!("{url}tree?token={TOKEN}");
    let sponde = sponde
        .with("SPONDE_GATEWAY_TOKEN", "")
        .with("SPONDE_GATEWAY", &with_token);
    let ended = sponde.run(&["run", "in.ipynb", "-vvv"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "there\n"));
    assert!(
        ended
            .stderr
            .contains("note: the gateway has no kernel `my-python`; using `python3`\n"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains(TOKEN), "{}", ended.stderr);
    // A kernel of this machine does not get it.
    let code = "import os; print([n for n in os.environ if 'GATEWAY' in n])";
    let ended = sponde.run(&["run", "--gateway", "", "-c", code]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "[]\n"));
    let ended = sponde.run(&["kernels", "list"]);
    let listed = format!("  {url}  (Python 3 (ipykernel); its default)\n");
    assert!(ended.stdout.contains(&listed), "{}", ended.stdout);
    assert!(!sponde.run(&["run", "--help"]).stdout.contains(TOKEN));
    let ended = sponde.run(&["run", "--gateway", &url, "-c", "1"]);
    insta::assert_snapshot!(ended, @r"
    exit: 4
    --- stderr
    error: could not list the kernels: gateway http://127.0.0.1:[PORT]/ wants a token (status 401)

    hint: set SPONDE_GATEWAY_TOKEN (or JUPYTER_GATEWAY_AUTH_TOKEN) to the server's token
    ");
    let ended = sponde.run(&["run", "--gateway", &format!("{NOBODY}/?token=x"), "-c", "1"]);
    insta::assert_snapshot!(ended, @r"
    exit: 4
    --- stderr
    error: could not list the kernels: gateway http://127.0.0.1:1/ cannot be reached (Connection refused (os error 111))

    hint: is it running, and can this machine reach it? A certificate of your own is trusted with SSL_CERT_FILE
    ");
    let ended = sponde.run(&["run", "--gateway", "http://me:pw@h/", "-c", "1"]);
    insta::assert_snapshot!(ended, @r"
    exit: 2
    --- stderr
    error: the gateway's URL cannot be used: it must not hold a name or a password

    hint: use the URL from the browser's address bar, for example http://gpu-box:8888/ or https://hub.example.org/user/me/
    ");
}
