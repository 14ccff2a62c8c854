//! Effects of functions in Python libraries, by dotted name.

use crate::risk::FindingKind;
use crate::risk::sink::Writing;

/// The effect of calling a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    /// It deletes the path in this argument.
    Delete(Arg),
    /// It writes to the path in this argument.
    Write(Arg, Writing),
    /// It opens that path, in the mode of argument 1, or of argument 0 for a method.
    Open(Arg),
    /// It moves the first path to the second.
    Move,
    /// It runs a command, given as a string or a list.
    Command,
    /// It runs Python code.
    Run,
    /// An effect that does not depend on arguments.
    Plain(FindingKind),
    /// It reads credentials from a file of this name, unless given another.
    Secrets(&'static str),
    /// It uses the network if its first argument is an address.
    Reads,
    /// It hides which function is called.
    Hides(&'static str),
}

/// Which argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arg {
    /// By position, or by one of these keywords.
    At(usize, &'static [&'static str]),
    /// The object that the method is called on.
    Receiver,
}

const PATH: Arg = Arg::At(0, &["path", "src", "name", "filename", "file", "fname"]);
const TARGET: Arg = Arg::At(1, &["dst", "dest", "filename", "path"]);

/// Modules that code has no honest reason to pass around.
pub(super) const SENSITIVE: [&str; 9] = [
    "os",
    "subprocess",
    "shutil",
    "builtins",
    "__builtins__",
    "importlib",
    "ctypes",
    "pty",
    "posix",
];

/// The effect of `name`, fully qualified.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn function(name: &str) -> Option<Api> {
    use Api::{Command, Delete, Hides, Move, Open, Plain, Reads, Run, Secrets, Write};
    use FindingKind::{Install, Network, ProcessControl, Shell};
    use Writing::{Append, Replace};
    if name.starts_with("sponde.tools.") {
        return Some(Plain(FindingKind::Tool));
    }
    Some(match name {
        "os.remove"
        | "os.unlink"
        | "os.rmdir"
        | "os.removedirs"
        | "shutil.rmtree"
        | "pathlib.Path.unlink"
        | "pathlib.Path.rmdir"
        | "send2trash.send2trash"
        | "rmtree"
        | "removedirs"
        | "os.truncate" => Delete(PATH),
        "open" | "io.open" | "codecs.open" | "os.fdopen" | "gzip.open" | "bz2.open"
        | "lzma.open" | "zipfile.ZipFile" | "tarfile.open" | "h5py.File" | "shelve.open" => {
            Open(PATH)
        }
        "os.mknod" | "os.mkdir" | "os.makedirs" | "os.mkfifo" => Write(PATH, Append),
        "os.open" => Write(PATH, Append),
        "shutil.copy" | "shutil.copy2" | "shutil.copyfile" | "shutil.copytree" | "os.link"
        | "os.symlink" => Write(TARGET, Replace),
        "shutil.move" | "os.rename" | "os.replace" | "os.renames" => Move,
        "numpy.save"
        | "numpy.savez"
        | "numpy.savez_compressed"
        | "numpy.savetxt"
        | "np.save"
        | "np.savez"
        | "np.savez_compressed"
        | "np.savetxt" => Write(Arg::At(0, &["file", "fname"]), Replace),
        "joblib.dump" | "torch.save" => Write(TARGET, Replace),
        "cv2.imwrite"
        | "imageio.imwrite"
        | "plt.savefig"
        | "matplotlib.pyplot.savefig"
        | "scipy.io.savemat"
        | "pyarrow.csv.write_csv" => Write(PATH, Replace),
        "urllib.request.urlretrieve"
        | "urlretrieve"
        | "urllib.request.urlopen"
        | "urlopen"
        | "urllib.request.Request"
        | "urllib.request.build_opener"
        | "requests.get"
        | "requests.post"
        | "requests.put"
        | "requests.patch"
        | "requests.delete"
        | "requests.head"
        | "requests.options"
        | "requests.request"
        | "requests.Session"
        | "requests.session"
        | "httpx.get"
        | "httpx.post"
        | "httpx.put"
        | "httpx.patch"
        | "httpx.delete"
        | "httpx.head"
        | "httpx.stream"
        | "httpx.request"
        | "httpx.Client"
        | "httpx.AsyncClient"
        | "aiohttp.ClientSession"
        | "aiohttp.request"
        | "socket.socket"
        | "socket.create_connection"
        | "socket.create_server"
        | "socket.gethostbyname"
        | "socket.getaddrinfo"
        | "socket.gethostbyaddr"
        | "http.client.HTTPConnection"
        | "http.client.HTTPSConnection"
        | "http.server.HTTPServer"
        | "socketserver.TCPServer"
        | "ftplib.FTP"
        | "ftplib.FTP_TLS"
        | "smtplib.SMTP"
        | "smtplib.SMTP_SSL"
        | "imaplib.IMAP4"
        | "imaplib.IMAP4_SSL"
        | "poplib.POP3"
        | "telnetlib.Telnet"
        | "xmlrpc.client.ServerProxy"
        | "asyncio.open_connection"
        | "asyncio.start_server"
        | "urllib3.PoolManager"
        | "urllib3.request"
        | "websocket.create_connection"
        | "websockets.connect"
        | "paramiko.SSHClient"
        | "paramiko.Transport"
        | "boto3.client"
        | "boto3.resource"
        | "boto3.Session"
        | "pycurl.Curl"
        | "wget.download"
        | "gdown.download"
        | "yfinance.download"
        | "yfinance.Ticker"
        | "yf.download"
        | "yf.Ticker"
        | "nltk.download"
        | "seaborn.load_dataset"
        | "sns.load_dataset"
        | "datasets.load_dataset"
        | "huggingface_hub.hf_hub_download"
        | "huggingface_hub.snapshot_download"
        | "sklearn.datasets.fetch_openml"
        | "sklearn.datasets.fetch_california_housing"
        | "sklearn.datasets.fetch_20newsgroups"
        | "fetch_openml"
        | "fetch_california_housing"
        | "fetch_20newsgroups"
        | "statsmodels.api.datasets.get_rdataset"
        | "sm.datasets.get_rdataset"
        | "webbrowser.open"
        | "psycopg2.connect"
        | "psycopg.connect"
        | "pymysql.connect"
        | "mysql.connector.connect"
        | "redis.Redis"
        | "pymongo.MongoClient"
        | "smbclient.open_file"
        | "fsspec.filesystem" => Plain(Network),
        "pandas.read_csv"
        | "pandas.read_table"
        | "pandas.read_json"
        | "pandas.read_html"
        | "pandas.read_excel"
        | "pandas.read_parquet"
        | "pandas.read_xml"
        | "urllib.urlopen"
        | "polars.read_csv"
        | "polars.read_parquet"
        | "fsspec.open"
        | "smart_open.open"
        | "duckdb.sql"
        | "duckdb.query"
        | "duckdb.execute"
        | "imageio.imread" => Reads,
        "os.system"
        | "os.popen"
        | "subprocess.run"
        | "subprocess.call"
        | "subprocess.check_call"
        | "subprocess.check_output"
        | "subprocess.Popen"
        | "subprocess.getoutput"
        | "subprocess.getstatusoutput"
        | "pty.spawn"
        | "asyncio.create_subprocess_shell"
        | "commands.getoutput"
        | "pexpect.run"
        | "pexpect.spawn"
        | "get_ipython().system"
        | "get_ipython().getoutput"
        | "get_ipython().system_raw"
        | "get_ipython().system_piped" => Command,
        "os.execv"
        | "os.execve"
        | "os.execl"
        | "os.execle"
        | "os.execlp"
        | "os.execvp"
        | "os.execlpe"
        | "os.execvpe"
        | "os.spawnl"
        | "os.spawnle"
        | "os.spawnlp"
        | "os.spawnlpe"
        | "os.spawnv"
        | "os.spawnve"
        | "os.spawnvp"
        | "os.spawnvpe"
        | "os.posix_spawn"
        | "os.posix_spawnp"
        | "os.startfile"
        | "asyncio.create_subprocess_exec" => Plain(Shell),
        "exec"
        | "eval"
        | "compile"
        | "get_ipython().run_cell"
        | "get_ipython().ex"
        | "get_ipython().ev"
        | "get_ipython().run_line_magic"
        | "get_ipython().run_cell_magic"
        | "get_ipython().magic"
        | "code.interact"
        | "timeit.timeit" => Run,
        "pip.main"
        | "pip._internal.main"
        | "pip._internal.cli.main.main"
        | "ensurepip.bootstrap"
        | "micropip.install"
        | "piplite.install"
        | "easy_install.main"
        | "conda.cli.main"
        | "conda.cli.python_api.run_command" => Plain(Install),
        "os.kill"
        | "os.killpg"
        | "os.abort"
        | "os._exit"
        | "signal.raise_signal"
        | "signal.pthread_kill"
        | "signal.pidfd_send_signal"
        | "psutil.Process().kill"
        | "psutil.Process().terminate"
        | "psutil.Process().suspend"
        | "psutil.Process().send_signal" => Plain(ProcessControl),
        "keyring.get_password" | "keyring.get_credential" | "secretstorage.dbus_init" => {
            Secrets("")
        }
        "dotenv.load_dotenv" | "dotenv.dotenv_values" | "load_dotenv" | "dotenv_values" => {
            Secrets(".env")
        }
        "netrc.netrc" => Secrets("~/.netrc"),
        "ctypes.CDLL"
        | "ctypes.PyDLL"
        | "ctypes.cdll.LoadLibrary"
        | "ctypes.pythonapi"
        | "ctypes.util.find_library"
        | "cffi.FFI().dlopen"
        | "ctypes.cdll" => Hides("calls machine code"),
        "types.CodeType" | "types.FunctionType" | "marshal.loads" => {
            Hides("runs code objects, not source text")
        }
        "runpy.run_path" | "runpy.run_module" => Plain(Shell),
        _ => return None,
    })
}

/// The effect of a method of this name, on any object.
pub(super) fn method(name: &str) -> Option<Api> {
    use Writing::Replace;
    Some(match name {
        "unlink" | "rmdir" => Api::Delete(Arg::Receiver),
        "rmtree" | "removedirs" => Api::Delete(PATH),
        "write_text" | "write_bytes" => Api::Write(Arg::Receiver, Replace),
        "to_csv" | "to_json" | "to_html" | "to_latex" | "to_markdown" | "to_string"
        | "to_parquet" | "to_feather" | "to_pickle" | "to_excel" | "to_stata" | "to_xml"
        | "to_hdf" | "to_orc" | "to_netcdf" => Api::Write(
            Arg::At(0, &["path_or_buf", "path", "buf", "excel_writer", "fname"]),
            Replace,
        ),
        "savefig" | "write_csv" | "write_parquet" | "write_json" | "write_ndjson"
        | "write_excel" | "write_image" | "write_html" | "sink_csv" | "sink_parquet" | "save"
        | "imsave" | "tofile" => Api::Write(
            Arg::At(0, &["fname", "file", "fp", "workbook", "path", "filename"]),
            Replace,
        ),
        "extractall" => Api::Write(Arg::At(0, &["path"]), Writing::Append),
        "read_csv" | "read_table" | "read_json" | "read_html" | "read_excel" | "read_parquet"
        | "read_xml" | "scan_csv" | "scan_parquet" => Api::Reads,
        _ => return None,
    })
}

/// Whether an attribute of this name reaches Python's internals.
pub(super) fn is_inside(attribute: &str) -> bool {
    matches!(
        attribute,
        "__subclasses__"
            | "__globals__"
            | "__builtins__"
            | "__code__"
            | "__loader__"
            | "__reduce__"
            | "f_globals"
            | "f_builtins"
            | "__getattribute__"
    )
}
