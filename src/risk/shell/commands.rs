//! Effects of programs, by name and arguments.

use tree_sitter::Node;

use crate::risk::finding::FindingKind;
use crate::risk::sink::{Sink, Writing};
use crate::risk::site::UNKNOWN;
use crate::risk::{DEEPEST, Dialect, nested};

/// Maximum wrappers removed from one command.
const WRAPPERS: usize = 8;

/// Analyses a command, `words`, at `node`.
pub(in crate::risk) fn words(words: &[String], node: Node<'_>, code: &str, sink: &mut Sink<'_>) {
    let Some((name, arguments)) = unwrapped(words) else {
        return;
    };
    let mut command = Command {
        name,
        arguments,
        node,
        code,
        sink,
    };
    command.judge();
}

/// The language of code that a program reads from its input, if it does; `None` inside for a language without a parser.
#[expect(
    clippy::option_option,
    reason = "not an interpreter; one that is not parsed"
)]
pub(super) fn reads_code(words: &[String]) -> Option<Option<Dialect>> {
    let (name, arguments) = unwrapped(words)?;
    let mut others = arguments
        .iter()
        .filter(|it| !it.starts_with('-') || *it == "-c");
    if others.any(|it| it != "/dev/stdin") {
        return None;
    }
    interpreter(&name)
}

#[expect(
    clippy::option_option,
    reason = "not an interpreter; one that is not parsed"
)]
fn interpreter(name: &str) -> Option<Option<Dialect>> {
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    Some(match name {
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" => Some(Dialect::Shell),
        "python" | "ipython" | "pypy" => Some(Dialect::Python),
        "node" | "deno" | "bun" => Some(Dialect::JavaScript),
        "Rscript" | "R" => Some(Dialect::R),
        "perl" | "ruby" | "php" | "lua" | "tclsh" => None,
        _ => return None,
    })
}

/// The program that `sudo -u x env A=1 timeout 5 rm -r y` runs, without its directory, and its arguments.
fn unwrapped(words: &[String]) -> Option<(String, Vec<String>)> {
    let mut words = words;
    for _ in 0..WRAPPERS {
        let first = words.first()?;
        let name = first.rsplit('/').next().unwrap_or(first);
        // Options of these wrappers that take a value.
        let (valued, skipped): (&[&str], usize) = match name {
            "sudo" | "doas" => (&["-u", "-g", "-h", "-p", "-C", "-T"], 0),
            "env" => (&["-u", "-C", "-S"], 0),
            "nice" => (&["-n"], 0),
            "ionice" => (&["-c", "-n", "-p"], 0),
            "timeout" => (&["-s", "-k"], 1),
            "xargs" => (&["-n", "-P", "-I", "-d", "-L", "-s", "-a", "-E"], 0),
            "stdbuf" => (&["-i", "-o", "-e"], 0),
            "watch" => (&["-n"], 0),
            "nohup" | "time" | "exec" | "command" | "builtin" | "setsid" | "busybox"
            | "chronic" | "unbuffer" => (&[], 0),
            _ => {
                let rest = words.get(1..).unwrap_or_default().to_vec();
                return Some((name.to_owned(), rest));
            }
        };
        let mut at = 1;
        while let Some(word) = words.get(at) {
            if valued.contains(&word.as_str()) {
                at += 2;
            } else if word.starts_with('-') && word.len() > 1 || name == "env" && word.contains('=')
            {
                at += 1;
            } else {
                break;
            }
        }
        let rest = words.get(at + skipped..).unwrap_or_default();
        if rest.is_empty() {
            return Some((name.to_owned(), words.get(1..).unwrap_or_default().to_vec()));
        }
        words = rest;
    }
    None
}

struct Command<'c, 's, 'n> {
    name: String,
    arguments: Vec<String>,
    node: Node<'n>,
    code: &'c str,
    sink: &'c mut Sink<'s>,
}

impl Command<'_, '_, '_> {
    fn find(&mut self, kind: FindingKind) {
        let name = self.name.clone();
        self.sink.find_command(kind, self.node, self.code, &name);
    }

    fn hides(&mut self, reason: &str) {
        let kind = FindingKind::Obfuscation;
        self.sink.find_because(kind, self.node, self.code, reason);
    }

    /// Arguments that are not options.
    fn plain(&self) -> Vec<String> {
        let mut plain = Vec::new();
        let mut all_plain = false;
        for argument in &self.arguments {
            if argument == "--" && !all_plain {
                all_plain = true;
            } else if all_plain || !argument.starts_with('-') || argument == "-" {
                plain.push(argument.clone());
            }
        }
        plain
    }

    /// The argument after one of these options.
    fn value_of(&self, options: &[&str]) -> Option<String> {
        let at = self
            .arguments
            .iter()
            .position(|it| options.contains(&it.as_str()))?;
        self.arguments.get(at + 1).cloned()
    }

    fn has(&self, option: &str) -> bool {
        self.arguments.iter().any(|it| it == option)
    }

    fn judge(&mut self) {
        let name = self.name.clone();
        self.sink.command(&name, self.node, self.code);
        if name.contains(UNKNOWN) || name.is_empty() {
            return self.hides("runs a program whose name is computed");
        }
        let first = self.plain().into_iter().next().unwrap_or_default();
        match &*name {
            "rm" | "rmdir" | "unlink" | "shred" | "trash" | "rimraf" => self.deletes(&self.plain()),
            "truncate" => self.deletes(&self.plain()),
            "find" | "fd" => self.finds(),
            "git" => self.git(&first),
            "mv" => self.moves(),
            "cp" | "install" | "ln" => self.copies(),
            "tee" => {
                let how = if self.has("-a") {
                    Writing::Append
                } else {
                    Writing::Replace
                };
                for path in self.plain() {
                    self.sink.write(Some(&path), how, self.node, self.code);
                }
            }
            "dd" => {
                let outs = self.arguments.clone();
                for path in outs.iter().filter_map(|it| it.strip_prefix("of=")) {
                    self.sink
                        .write(Some(path), Writing::Replace, self.node, self.code);
                }
            }
            "sed" | "perl" | "ruby"
                if self
                    .arguments
                    .iter()
                    .any(|it| it.starts_with("-i") || it.starts_with("-pi")) =>
            {
                for path in self.plain().into_iter().skip(1) {
                    self.sink
                        .write(Some(&path), Writing::Replace, self.node, self.code);
                }
            }
            "eval" => self.runs_text(&self.arguments.join(" ")),
            "source" | "." => self.find(FindingKind::Shell),
            "alias" => {
                for argument in self.arguments.clone() {
                    if let Some((_, command)) = argument.split_once('=') {
                        self.runs_text(command);
                    }
                }
            }
            "trap" => self.runs_text(&first),
            "kill" | "pkill" | "killall" | "skill" | "reboot" | "shutdown" | "halt"
            | "poweroff" | "systemctl" | "service" | "init" => {
                self.find(FindingKind::ProcessControl);
            }
            "mkfs" | "fdisk" | "parted" | "wipefs" => self.deletes(&self.plain()),
            "security" | "secret-tool" | "pass" | "gpg" | "keyring" => {
                self.sink.credentials("", self.node, self.code);
            }
            _ if is_network(&name, &self.arguments) => {
                self.find(FindingKind::Network);
                self.downloads();
            }
            _ if self.installs(&first) => self.find(FindingKind::Install),
            _ if interpreter(&name).is_some() => self.interprets(),
            _ => {}
        }
    }

    fn deletes(&mut self, paths: &[String]) {
        if paths.is_empty() {
            return self.sink.delete(None, self.node, self.code);
        }
        for path in paths {
            let known = (!path.contains(UNKNOWN)).then_some(path.as_str());
            self.sink.delete(known, self.node, self.code);
        }
    }

    /// `find . -name '*.tmp' -delete`, `find . -exec rm {} \;`.
    fn finds(&mut self) {
        if self.has("-delete") {
            return self.sink.delete(None, self.node, self.code);
        }
        let options = ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X"];
        let at = self
            .arguments
            .iter()
            .position(|it| options.contains(&it.as_str()));
        if let Some(at) = at {
            let rest: Vec<String> = self.arguments.get(at + 1..).unwrap_or_default().to_vec();
            let rest: Vec<String> = rest
                .into_iter()
                .filter(|word| word != ";" && word != "+")
                .map(|word| word.replace("{}", &UNKNOWN.to_string()))
                .collect();
            words(&rest, self.node, self.code, self.sink);
        }
    }

    fn git(&mut self, first: &str) {
        match first {
            "clean" | "rm" | "reset" | "restore" | "checkout" | "stash" | "switch"
                if first != "reset" || self.has("--hard") =>
            {
                if first == "checkout" && !self.has("--") && !self.has("-f") && !self.has(".") {
                    return;
                }
                self.sink.delete(None, self.node, self.code);
            }
            "clone" | "fetch" | "pull" | "push" | "ls-remote" | "submodule" => {
                self.find(FindingKind::Network);
            }
            _ => {}
        }
    }

    fn moves(&mut self) {
        let paths = self.plain();
        let target = self.value_of(&["-t", "--target-directory"]);
        let (from, to) = match (&target, paths.split_last()) {
            (Some(to), _) => (paths.as_slice(), to.clone()),
            (None, Some((to, from))) => (from, to.clone()),
            (None, None) => return,
        };
        for from in from {
            let (from, to) = (Some(from.as_str()), Some(to.as_str()));
            self.sink.moved(from, to, self.node, self.code);
        }
    }

    fn copies(&mut self) {
        let to = self.value_of(&["-t", "--target-directory"]);
        if let Some(to) = to.or_else(|| self.plain().pop()) {
            self.sink
                .write(Some(&to), Writing::Replace, self.node, self.code);
        }
    }

    /// The file that a download is saved to.
    fn downloads(&mut self) {
        let to = self.value_of(&["-o", "-O", "--output", "--output-document"]);
        if let Some(to) = to {
            self.sink
                .write(Some(&to), Writing::Replace, self.node, self.code);
        }
    }

    fn installs(&self, first: &str) -> bool {
        let second = self.plain().into_iter().nth(1).unwrap_or_default();
        let name = self
            .name
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        match name {
            "pip" | "pipx" | "conda" | "mamba" | "micromamba" | "gem" | "brew" | "apt"
            | "apt-get" | "aptitude" | "yum" | "dnf" | "zypper" | "snap" | "flatpak" | "port"
            | "opam" | "cabal" | "luarocks" => matches!(
                first,
                "install"
                    | "uninstall"
                    | "update"
                    | "upgrade"
                    | "create"
                    | "remove"
                    | "download"
                    | "env"
                    | "purge"
                    | "full-upgrade"
                    | "dist-upgrade"
                    | "inject"
            ),
            "apk" | "cargo" | "go" | "poetry" | "pdm" | "deno" | "bun" | "yarn" | "pnpm"
            | "npm" | "composer" => {
                matches!(
                    first,
                    "add"
                        | "install"
                        | "i"
                        | "ci"
                        | "get"
                        | "remove"
                        | "uninstall"
                        | "update"
                        | "upgrade"
                        | "require"
                        | "del"
                ) || name == "yarn" && first.is_empty()
            }
            "uv" => {
                matches!(first, "add" | "remove" | "sync" | "tool")
                    || first == "pip" && second == "install"
            }
            "pacman" => self
                .arguments
                .iter()
                .any(|it| it.starts_with("-S") || it.starts_with("-R")),
            "R" => first == "CMD" && second == "INSTALL",
            "npx" | "uvx" | "easy_install" | "dpkg" | "rpm" => true,
            "make" => first == "install",
            _ => false,
        }
    }

    /// `python -c CODE`, `bash -c CODE`, `python -m pip install x`.
    fn interprets(&mut self) {
        let dialect = interpreter(&self.name).flatten();
        if dialect == Some(Dialect::Python) {
            let module = self.value_of(&["-m"]);
            if let Some(module) = module {
                let at = self.arguments.iter().position(|it| *it == module);
                let rest = self
                    .arguments
                    .get(at.unwrap_or(0)..)
                    .unwrap_or_default()
                    .to_vec();
                if module == "ensurepip" {
                    return self.find(FindingKind::Install);
                }
                return words(&rest, self.node, self.code, self.sink);
            }
            let is_setup = self
                .plain()
                .first()
                .is_some_and(|it| it.ends_with("setup.py"));
            if is_setup && self.has("install") {
                return self.find(FindingKind::Install);
            }
        }
        let first = self.plain().into_iter().next().unwrap_or_default();
        if dialect == Some(Dialect::JavaScript) && first == "eval" {
            let code = self.plain().into_iter().nth(1).unwrap_or_default();
            return self.runs(&code, dialect);
        }
        let code = self.value_of(&[
            "-c", "-e", "-lc", "-ec", "-xc", "-p", "--eval", "-pe", "-ne", "-r",
        ]);
        if let Some(code) = code {
            self.runs(&code, dialect);
        }
    }

    fn runs_text(&mut self, text: &str) {
        if text.contains(UNKNOWN) {
            return self.hides("runs code that is computed");
        }
        self.runs(text, Some(Dialect::Shell));
    }

    fn runs(&mut self, code: &str, dialect: Option<Dialect>) {
        let Some(dialect) = dialect else {
            let reason = format!("code for {} is not analysed", self.name);
            let kind = FindingKind::Unanalysed;
            return self.sink.find_because(kind, self.node, self.code, &reason);
        };
        if code == UNKNOWN.to_string() {
            return self.hides("runs code that is computed");
        }
        if self.sink.depth >= DEEPEST {
            return self.hides("nests code too deeply");
        }
        let text = code.replace(UNKNOWN, "__computed");
        let text = if dialect == Dialect::Shell {
            code.replace(UNKNOWN, "$__computed")
        } else {
            text
        };
        self.sink
            .within(self.node, self.code, |sink| nested(&text, dialect, sink));
    }
}

/// Whether the program uses the network, always or with these arguments.
fn is_network(name: &str, arguments: &[String]) -> bool {
    match name {
        "curl" | "wget" | "aria2c" | "http" | "https" | "httpie" | "nc" | "ncat" | "netcat"
        | "telnet" | "ssh" | "scp" | "sftp" | "ftp" | "lftp" | "ping" | "dig" | "nslookup"
        | "host" | "traceroute" | "socat" | "nmap" | "aws" | "gcloud" | "gsutil" | "az"
        | "rclone" | "docker" | "podman" | "kubectl" | "gh" | "tailscale" | "ngrok" | "psql"
        | "mysql" | "mongosh" | "redis-cli" | "kaggle" | "huggingface-cli" | "lynx" | "w3m" => true,
        "rsync" => arguments.iter().any(|it| it.contains(':')),
        "openssl" => arguments.first().is_some_and(|it| it == "s_client"),
        _ => false,
    }
}
