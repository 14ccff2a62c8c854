//! Effects of functions in Node, Deno and some packages, by dotted name.

use crate::risk::finding::FindingKind;
use crate::risk::sink::Writing;

/// The effect of calling a function.
#[derive(Clone, Copy)]
pub(super) enum Api {
    /// It deletes its first argument.
    Delete,
    /// It writes to the path in this argument.
    Write(usize, Writing),
    /// It moves the first path to the second.
    Move,
    /// It runs a command.
    Command,
    /// It runs code: its last argument.
    Run,
    /// It runs its first argument, if that is a string of code.
    Later,
    /// An effect that does not depend on arguments.
    Plain(FindingKind),
    /// It hides which function is called.
    Hides(&'static str),
}

/// Objects with harmful functions.
pub(super) const SENSITIVE: [&str; 9] = [
    "globalThis",
    "global",
    "window",
    "self",
    "fs",
    "child_process",
    "process",
    "Deno",
    "Bun",
];

/// The effect of `name`, fully qualified; `is_new` for `new NAME()`, `is_template` for NAME`..`.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn function(name: &str, is_new: bool, is_template: bool) -> Option<Api> {
    use FindingKind::{Network, ProcessControl};
    use Writing::{Append, Replace};
    Some(match name {
        "fs.rm" | "fs.rmSync" | "fs.unlink" | "fs.unlinkSync" | "fs.rmdir" | "fs.rmdirSync"
        | "fs.remove" | "fs.removeSync" | "fs.emptyDir" | "fs.emptyDirSync" | "fs.truncate"
        | "fs.truncateSync" | "Deno.remove" | "Deno.removeSync" | "Deno.truncate"
        | "Deno.truncateSync" | "rimraf" | "rimraf.sync" | "rimraf.rimraf" | "del"
        | "del.deleteAsync" | "trash" => Api::Delete,
        "fs.writeFile"
        | "fs.writeFileSync"
        | "fs.createWriteStream"
        | "fs.outputFile"
        | "fs.outputFileSync"
        | "fs.writeJson"
        | "fs.writeJsonSync"
        | "Deno.writeFile"
        | "Deno.writeFileSync"
        | "Deno.writeTextFile"
        | "Deno.writeTextFileSync"
        | "Deno.create"
        | "Deno.createSync"
        | "Bun.write" => Api::Write(0, Replace),
        "fs.appendFile" | "fs.appendFileSync" | "fs.mkdir" | "fs.mkdirSync" | "Deno.mkdir"
        | "Deno.mkdirSync" => Api::Write(0, Append),
        "fs.copyFile" | "fs.copyFileSync" | "fs.cp" | "fs.cpSync" | "fs.copy" | "fs.copySync"
        | "fs.symlink" | "fs.symlinkSync" | "fs.link" | "fs.linkSync" | "Deno.copyFile"
        | "Deno.copyFileSync" | "Deno.symlink" | "Deno.link" => Api::Write(1, Replace),
        "fs.rename" | "fs.renameSync" | "fs.move" | "fs.moveSync" | "Deno.rename"
        | "Deno.renameSync" => Api::Move,
        "fetch"
        | "axios"
        | "axios.get"
        | "axios.post"
        | "axios.put"
        | "axios.delete"
        | "axios.request"
        | "http.request"
        | "http.get"
        | "https.request"
        | "https.get"
        | "http.createServer"
        | "https.createServer"
        | "http2.connect"
        | "net.connect"
        | "net.createConnection"
        | "net.createServer"
        | "tls.connect"
        | "dgram.createSocket"
        | "dns.lookup"
        | "dns.resolve"
        | "Deno.connect"
        | "Deno.connectTls"
        | "Deno.listen"
        | "Deno.serve"
        | "Deno.resolveDns"
        | "got"
        | "undici.fetch"
        | "undici.request"
        | "node-fetch"
        | "superagent.get"
        | "ky.get"
        | "d3.csv"
        | "d3.json" => Api::Plain(Network),
        "WebSocket" | "XMLHttpRequest" | "EventSource" | "net.Socket" | "ws" if is_new => {
            Api::Plain(Network)
        }
        "$" if is_template => Api::Command,
        "child_process.exec"
        | "child_process.execSync"
        | "child_process.execFile"
        | "child_process.execFileSync"
        | "child_process.spawn"
        | "child_process.spawnSync"
        | "Deno.Command"
        | "Deno.run"
        | "Bun.spawn"
        | "Bun.spawnSync"
        | "execa"
        | "execa.execa"
        | "execaSync"
        | "shelljs.exec" => Api::Command,
        "child_process.fork" | "worker_threads.Worker" | "Worker" | "cluster.fork" => {
            Api::Plain(FindingKind::Shell)
        }
        "shelljs.rm" => Api::Delete,
        "process.kill" | "process.abort" | "Deno.kill" => Api::Plain(ProcessControl),
        "eval"
        | "Function"
        | "vm.runInThisContext"
        | "vm.runInNewContext"
        | "vm.runInContext"
        | "vm.Script"
        | "vm.compileFunction"
        | "AsyncFunction" => Api::Run,
        "setTimeout" | "setInterval" | "setImmediate" => Api::Later,
        "process.binding" | "process._linkedBinding" | "process.dlopen" | "Deno.dlopen" => {
            Api::Hides("calls machine code")
        }
        "Reflect.get" | "Reflect.apply" => Api::Hides("picks a function by a computed name"),
        _ => return None,
    })
}

/// The effect of a method of this name, on any object.
pub(super) fn method(name: &str) -> Option<Api> {
    Some(match name {
        "rmSync" | "unlinkSync" | "rmdirSync" | "unlink" | "rmdir" => Api::Delete,
        "execSync" | "spawnSync" | "execFileSync" => Api::Command,
        "writeFileSync" | "writeFile" => Api::Write(0, Writing::Replace),
        // [].constructor.constructor("code")()
        "constructor" => Api::Run,
        _ => return None,
    })
}
