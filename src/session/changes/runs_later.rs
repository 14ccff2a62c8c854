//! Files that something runs or follows when a person uses the directory later. Code in the sandbox can write them, and
//! whatever they start is not confined.

/// Exact names of files or directories, and what happens with them.
const NAMES: &[(&[&str], &str)] = &[
    (
        &["sitecustomize.py", "usercustomize.py"],
        "runs whenever Python starts with its directory on the path",
    ),
    (&["conftest.py"], "runs when pytest does"),
    (
        &["setup.py", "setup.cfg", "pyproject.toml"],
        "is used when the project is installed or its tools run",
    ),
    (&["tox.ini", "noxfile.py"], "says what tox or nox runs"),
    (
        &["ipython_config.py", "jupyter_config.py"],
        "runs when Jupyter or IPython starts here",
    ),
    (&["kernel.json"], "says what Jupyter starts as a kernel"),
    (
        &[".venv", "venv", "pyvenv.cfg"],
        "is used when an editor, a shell or Sponde picks this environment",
    ),
    (
        &[".git", ".hg", ".svn", ".gitmodules", ".husky"],
        "says what version control runs here",
    ),
    (
        &[".pre-commit-config.yaml", "lefthook.yml"],
        "says what runs when you commit",
    ),
    (
        &[".github", ".gitlab-ci.yml"],
        "says what runs on a server when you push",
    ),
    (
        &[
            "SPONDE.md",
            "AGENTS.md",
            "CLAUDE.md",
            "GEMINI.md",
            ".cursorrules",
            ".cursor",
            ".claude",
            ".mcp.json",
        ],
        "is followed by models that work here later; Sponde asks you before it follows a new or changed SPONDE.md",
    ),
    (
        &[".envrc", ".mise.toml", "mise.toml"],
        "runs when direnv or mise enters this directory",
    ),
    (
        &[".env", ".npmrc", "pip.conf", ".condarc", ".netrc"],
        "sets where tools connect to and what they use",
    ),
    (
        &[".vscode", ".idea", ".zed", ".devcontainer"],
        "can run when an editor opens this directory",
    ),
    (
        &[
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".profile",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".cshrc",
            ".tcshrc",
            ".kshrc",
            ".login",
            ".inputrc",
            "config.fish",
        ],
        "runs when a shell starts, if this is your home directory",
    ),
    (
        &[".ssh", ".config", ".local", "authorized_keys", "crontab"],
        "can let others in or start programs, if this is your home directory",
    ),
    (
        &[".Rprofile", ".Renviron", ".RData"],
        "is read when R starts here",
    ),
    (&["startup.jl"], "runs when Julia starts"),
    (
        &[
            ".gdbinit",
            ".lldbinit",
            ".vimrc",
            ".exrc",
            ".nvim.lua",
            ".dir-locals.el",
        ],
        "runs when a debugger or an editor starts here",
    ),
    (
        &["package.json", "node_modules"],
        "is used when npm or node runs here",
    ),
    (
        &[
            "build.rs",
            "Makefile",
            "makefile",
            "GNUmakefile",
            "justfile",
            "Justfile",
            "CMakeLists.txt",
        ],
        "says what runs when the project is built",
    ),
];

/// File name suffixes.
const ENDINGS: &[(&str, &str)] = &[
    (
        ".pth",
        "runs whenever a Python starts that finds it beside its packages",
    ),
    (".code-workspace", "can run when an editor opens it"),
    (".desktop", "starts a program when it is opened"),
    (".service", "starts a program when systemd is given it"),
];

/// What will run or follow the file or directory at `path` later. Every path component is checked.
pub fn runs_later(path: &str) -> Option<&'static str> {
    let parts = || path.split('/').filter(|part| !part.is_empty());
    let last = parts().next_back()?;
    let of_name = |part: &str| {
        let mut all = NAMES.iter();
        let found = all.find(|(names, _)| names.iter().any(|name| name.eq_ignore_ascii_case(part)));
        found.map(|(_, why)| *why)
    };
    let is_config = last.starts_with("jupyter_") && last.ends_with("_config.py");
    // A parent directory's name says more than the file's own.
    let by_name = parts().find_map(of_name);
    let by_end = || {
        let mut all = ENDINGS.iter();
        let found = all.find(|(ending, _)| last.len() > ending.len() && last.ends_with(ending));
        found.map(|(_, why)| *why)
    };
    by_name
        .or_else(by_end)
        .or_else(|| is_config.then_some("runs when Jupyter starts here"))
}

#[cfg(test)]
mod tests {
    use super::runs_later;

    #[test]
    fn what_runs_later_is_known_by_its_name() {
        for path in [
            "sitecustomize.py",
            "lib/evil.pth",
            "tests/conftest.py",
            "share/jupyter/kernels/x/kernel.json",
            "jupyter_server_config.py",
            ".venv/",
            "sub/.git/",
            ".git",
            "SPONDE.md",
            "sponde.md",
            ".envrc",
            ".vscode/tasks.json",
            ".bashrc",
            "package.json",
            "src/build.rs",
        ] {
            assert!(runs_later(path).is_some(), "{path}");
        }
        for path in [
            "",
            "data.csv",
            "plots/one.png",
            "analysis.py",
            ".pth",
            "path.txt",
            "README.md",
            "gitlog.txt",
            "venv.md",
        ] {
            assert_eq!(runs_later(path), None, "{path}");
        }
    }
}
