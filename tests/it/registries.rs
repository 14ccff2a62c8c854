//! Installing from a registry that is this person's own, out of the sandbox: R's, which has no variable for it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Sponde, not_tested};

/// Serves the files below `dir`, to the end of the process; its port.
fn serve(dir: PathBuf) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let path = request
                .split(' ')
                .nth(1)
                .unwrap_or_default()
                .trim_start_matches('/');
            let (status, body) = match std::fs::read(dir.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&body));
        }
    });
    port
}

/// A repository of R's with one package in it, whose function says 42.
fn repository(dir: &Path) -> PathBuf {
    let contrib = dir.join("repository/src/contrib");
    let package = dir.join("tiny");
    for new in [&contrib, &package.join("R")] {
        std::fs::create_dir_all(new).unwrap();
    }
    let description = "Package: tiny\nVersion: 1.0\nTitle: Tiny\nDescription: Tiny.\nAuthor: A\nMaintainer: A <a@example.org>\nLicense: MIT\n";
    std::fs::write(package.join("DESCRIPTION"), description).unwrap();
    std::fs::write(package.join("NAMESPACE"), "export(answer)\n").unwrap();
    std::fs::write(package.join("R/tiny.R"), "answer <- function() 42\n").unwrap();
    std::fs::write(contrib.join("PACKAGES"), "Package: tiny\nVersion: 1.0\n").unwrap();
    let packed = Command::new("tar")
        .args(["czf", "repository/src/contrib/tiny_1.0.tar.gz", "tiny"])
        .current_dir(dir)
        .status()
        .unwrap();
    assert!(packed.success());
    dir.join("repository")
}

#[test]
fn packages_of_r_come_from_the_mirror_that_the_person_has() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.join("Rscript").is_file()) {
        return not_tested("packages of R: there is no Rscript");
    }
    let dir = tempfile::tempdir().unwrap();
    let port = serve(repository(dir.path()));
    // Not `localhost`, for which no program asks a proxy.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = name.trim();
    if (name, port).to_socket_addrs().is_err() {
        return not_tested("packages of R: the name of this machine has no address");
    }
    let profile = dir.path().join("Rprofile");
    // Where the person says it, code of a model cannot read.
    let mirror = format!("options(repos = c(CRAN = 'http://{name}:{port}'))\n");
    std::fs::write(&profile, mirror).unwrap();
    let sponde = Sponde::new().with("R_PROFILE_USER", profile.to_str().unwrap());
    let code = "import subprocess\n\
                install = 'dir.create(\"lib\"); install.packages(\"tiny\", lib = \"lib\", quiet = TRUE); library(tiny, lib.loc = \"lib\"); cat(answer())'\n\
                done = subprocess.run(['Rscript', '-e', install], capture_output=True, text=True)\n\
                print(done.stdout, done.stderr)";
    let run = ["run", "--sandbox", "workspace", "--network"];
    let ended = sponde.run(&[&run[..], &["allow:cran", "-c", code]].concat());
    assert!(
        ended.stdout.starts_with("42"),
        "{}\n{}",
        ended.stdout,
        ended.stderr
    );
    std::fs::remove_dir_all(sponde.path("lib")).unwrap();
    // Another registry's hosts are not R's.
    let off = sponde.run(&[&run[..], &["allow:example.org", "-c", code]].concat());
    assert!(
        !off.stdout.starts_with("42"),
        "{}\n{}",
        off.stdout,
        off.stderr
    );
}
