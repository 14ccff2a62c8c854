//! Finds a kernel's program and its libraries: what must be readable for it to start.

use std::path::{Component, Path, PathBuf};

use super::view::View;

/// Most links and script interpreters that are followed.
const HOPS: usize = 16;
/// Directories of a home directory that hold more than programs.
const MIXED: [&str; 2] = [".local", ".cargo"];

/// The trees that `program` needs (a path, or a name on `path`): its own, those of links on the way to it, that of a
/// script's interpreter, and that of the Python that a virtual environment was made with.
pub(super) fn roots(program: &str, path: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    let mut next = find(program, path);
    for _ in 0..HOPS {
        let Some(at) = next.take() else { break };
        for root in trees_of(&at, home) {
            if let Some(base) = base_of_environment(&root) {
                roots.extend(trees_of(&base.join("python"), home));
            }
            roots.push(root);
        }
        next = match std::fs::read_link(&at) {
            Ok(target) => Some(normal(&at.with_file_name("").join(target))),
            Err(_) => script_interpreter(&at).and_then(|name| find(&name, path)),
        };
    }
    roots.dedup();
    roots
}

/// Libraries that users install into their home directory, and the variables through which they are found.
pub(super) fn libraries(home: Option<&Path>, view: &mut View) {
    let Some(home) = home else { return };
    let user = home.join(".local/lib");
    let dirs = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let python = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("python"))
    };
    let pythons: Vec<PathBuf> = dirs(&user).into_iter().filter(python).collect();
    if !pythons.is_empty() {
        view.readable.extend(pythons);
        let base = home.join(".local").to_string_lossy().into_owned();
        view.env.push(("PYTHONUSERBASE".to_owned(), base));
    }
    // ~/R/<platform>-library/<version>
    let r: Vec<PathBuf> = dirs(&home.join("R"))
        .iter()
        .flat_map(|dir| dirs(dir))
        .collect();
    if !r.is_empty() {
        let joined: Vec<_> = r.iter().map(|dir| dir.to_string_lossy()).collect();
        view.env.push(("R_LIBS_USER".to_owned(), joined.join(":")));
        view.readable.push(home.join("R"));
    }
    // matplotlib takes seconds to rebuild it.
    for path in dirs(&home.join(".cache/matplotlib")) {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        if let Some(name) = name.filter(|name| name.starts_with("fontlist-")) {
            view.seeds
                .push((path, Path::new(".cache/matplotlib").join(name)));
        }
    }
}

fn find(program: &str, path: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|program| program.is_absolute());
    }
    let mut dirs = path.split(':').filter(|dir| dir.starts_with('/'));
    dirs.find_map(|dir| Some(Path::new(dir).join(program)).filter(|found| found.is_file()))
}

/// The prefix that a program is installed in; in a mixed directory only the parts with programs and libraries.
fn trees_of(program: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let Some(dir) = program.parent() else {
        return Vec::new();
    };
    // Packages of Node.js find each other there.
    let modules = dir.ancestors().filter(|dir| dir.ends_with("node_modules"));
    if let Some(modules) = modules.last() {
        return vec![modules.to_owned()];
    }
    let prefix = match dir.parent() {
        Some(prefix) if dir.ends_with("bin") => prefix,
        Some(_) | None => dir,
    };
    let is_mixed = home.is_some_and(|home| {
        home.starts_with(prefix) || MIXED.iter().any(|name| home.join(name) == prefix)
    });
    if !is_mixed {
        return vec![prefix.to_owned()];
    }
    if dir == prefix {
        return vec![program.to_owned()];
    }
    vec![dir.to_owned()]
}

/// `home` of a virtual environment's pyvenv.cfg (PEP 405): the directory of the Python that made it.
fn base_of_environment(prefix: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    let (_, home) = lines.find(|(name, _)| name.trim() == "home")?;
    Some(PathBuf::from(home.trim())).filter(|home| home.is_absolute())
}

/// The interpreter of a script: `#!/usr/bin/env node` means `node`.
fn script_interpreter(script: &Path) -> Option<String> {
    use std::io::Read as _;
    let mut start = Vec::new();
    let file = std::fs::File::open(script).ok()?;
    file.take(256).read_to_end(&mut start).ok()?;
    let text = String::from_utf8_lossy(&start).into_owned();
    let mut words = text.strip_prefix("#!")?.lines().next()?.split_whitespace();
    let program = words.next()?;
    if program.ends_with("/env") {
        return words.find(|word| !word.starts_with('-')).map(str::to_owned);
    }
    Some(program.to_owned())
}

/// Resolves `.` and `..` but no links.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_scripts_and_environments_lead_to_all_that_is_needed() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let make = |path: &str, text: &str| {
            let path = home.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        make(".pyenv/versions/3/bin/python3", "");
        make(
            "env/pyvenv.cfg",
            &format!("home = {}\n", home.join(".pyenv/versions/3/bin").display()),
        );
        make(".nvm/v1/bin/node", "");
        make(".nvm/v1/lib/tslab.js", "#!/usr/bin/env node\n");
        make(
            "js/node_modules/kernel/lib/kernel.js",
            "#!/usr/bin/env node\n",
        );
        std::fs::create_dir(home.join("js/node_modules/.bin")).unwrap();
        make(".local/bin/x", "");
        std::fs::create_dir_all(home.join("env/bin")).unwrap();
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at);
        link(
            &home.join(".pyenv/versions/3/bin/python3"),
            &home.join("env/bin/python"),
        )
        .unwrap();
        link(
            Path::new("../lib/tslab.js"),
            &home.join(".nvm/v1/bin/tslab"),
        )
        .unwrap();
        link(
            Path::new("../kernel/lib/kernel.js"),
            &home.join("js/node_modules/.bin/kernel"),
        )
        .unwrap();
        let path = home.join(".nvm/v1/bin").to_string_lossy().into_owned();
        let of = |program: &Path| {
            let found = roots(&program.to_string_lossy(), &path, Some(&home));
            let mut found: Vec<_> = found
                .iter()
                .map(|root| {
                    root.strip_prefix(&home)
                        .unwrap()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            found.sort();
            found.dedup();
            found
        };
        assert_eq!(
            of(&home.join("env/bin/python")),
            [".pyenv/versions/3", "env"]
        );
        assert_eq!(of(Path::new("tslab")), [".nvm/v1", ".nvm/v1/lib"]);
        assert_eq!(
            of(&home.join("js/node_modules/.bin/kernel")),
            [".nvm/v1", "js/node_modules"]
        );
        assert_eq!(of(&home.join(".local/bin/x")), [".local/bin"]);
    }
}
