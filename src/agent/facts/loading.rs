//! How a program loads what the facts describe, without a model: a table, files of one shape, the tables of a database.

use std::io;
use std::path::{Path, PathBuf};

use super::calls::Language;
use super::kind::{self, FileKind};
use super::names::{python_path, shown_path};
use super::sketch::Part;
use super::target::Target;
use super::{glob, look};

/// Files of one shape that are loaded as one table.
const MOST: usize = 200;

/// How Python loads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loading {
    /// A statement that makes the data frame `df`.
    Frame(String),
    /// The tables of a database, whose path is this string of Python.
    Database(Engine, String),
}

/// What reads a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Python's own `sqlite3`.
    Sqlite,
    /// The package `duckdb`.
    DuckDb,
}

/// Why there is no code that loads it.
#[derive(Debug, thiserror::Error)]
pub enum NotLoadable {
    /// A file cannot be read.
    #[error("could not read `{}`: {error}", shown_path(.path))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// A pattern fits no file, or a folder is empty.
    #[error("there is no file in `{}`", shown_path(.0))]
    Nothing(PathBuf),
    /// There is no line that loads the file.
    #[error("`{}` is not a table that one line of pandas loads, and not a database", shown_path(.0))]
    NotATable(PathBuf),
    /// More files than are loaded as one table.
    #[error("{0} files are too many for one table: {most} are the most", most = MOST)]
    TooMany(usize),
    /// One of several files, whose columns are not known before it is loaded.
    #[error("`{}` cannot be put together with other files", shown_path(.0))]
    OneOnly(PathBuf),
    /// Two files whose columns differ.
    #[error("`{}` and `{}` do not have the same columns", shown_path(.0), shown_path(.1))]
    Unlike(PathBuf, PathBuf),
}

impl NotLoadable {
    /// With paths as a person in `cwd` writes them.
    fn seen_from(self, cwd: &Path) -> Self {
        let inner = |path: PathBuf| match path.strip_prefix(cwd) {
            Ok(inner) => inner.to_owned(),
            Err(_) => path,
        };
        match self {
            Self::Unreadable { path, error } => Self::Unreadable {
                path: inner(path),
                error,
            },
            Self::Nothing(path) => Self::Nothing(inner(path)),
            Self::NotATable(path) => Self::NotATable(inner(path)),
            Self::TooMany(count) => Self::TooMany(count),
            Self::OneOnly(path) => Self::OneOnly(inner(path)),
            Self::Unlike(one, other) => Self::Unlike(inner(one), inner(other)),
        }
    }
}

/// How code in `cwd` loads `paths`: one file, or files, folders and patterns of files that have the same columns.
///
/// # Errors
/// A file that cannot be read, or why there is no such code.
pub fn loading(paths: &[PathBuf], cwd: &Path) -> Result<Loading, NotLoadable> {
    load_all(paths, cwd).map_err(|why| why.seen_from(cwd))
}

fn load_all(paths: &[PathBuf], cwd: &Path) -> Result<Loading, NotLoadable> {
    let files = files(paths)?;
    if files.len() > MOST {
        return Err(NotLoadable::TooMany(files.len()));
    }
    if let [file] = files.as_slice() {
        let engine = engine(file)?;
        let inner = file.strip_prefix(cwd).unwrap_or(file);
        return match engine {
            Some(engine) => Ok(Loading::Database(engine, python_path(inner))),
            None => Table::of(file, cwd).map(|table| Loading::Frame(table.load)),
        };
    }
    let mut tables = Vec::new();
    for file in &files {
        if engine(file)?.is_some() {
            return Err(NotLoadable::OneOnly(file.clone()));
        }
        let table = Table::of(file, cwd)?;
        if table.columns.is_empty() {
            return Err(NotLoadable::OneOnly(file.clone()));
        }
        let first: &Table = tables.first().unwrap_or(&table);
        if table.columns != first.columns {
            let first = files.first().unwrap_or(file);
            return Err(NotLoadable::Unlike(first.clone(), file.clone()));
        }
        tables.push(table);
    }
    Ok(Loading::Frame(
        partitioned(paths, &tables, cwd).unwrap_or_else(|| together(&tables)),
    ))
}

/// The files that were named. Of a folder, those whose names do not begin like those of hidden files and of markers.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, NotLoadable> {
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        if path.is_dir() {
            let all = glob::expand(Path::new("**/*"), path);
            let is_data = |file: &PathBuf| {
                let name = file.file_name().unwrap_or_default();
                !name.as_encoded_bytes().starts_with(b"_")
            };
            files.extend(all.iter().filter(|it| is_data(it)).map(|it| path.join(it)));
        } else if glob::is_pattern(path) && !path.exists() {
            files.extend(glob::expand(path, Path::new("/")));
        } else {
            files.push(path.clone());
        }
        if files.len() == before {
            return Err(NotLoadable::Nothing(path.clone()));
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn engine(file: &Path) -> Result<Option<Engine>, NotLoadable> {
    let unreadable = |error| NotLoadable::Unreadable {
        path: file.to_owned(),
        error,
    };
    let kind = kind::of_file(file).map_err(unreadable)?;
    let is_duckdb = matches!(kind, FileKind::Known(format) if format.inside == "duckdb");
    if kind == FileKind::Sqlite {
        return Ok(Some(Engine::Sqlite));
    }
    Ok(is_duckdb.then_some(Engine::DuckDb))
}

/// A file with one table.
struct Table {
    /// `df = pd.read_csv(..)`.
    load: String,
    /// Their names, sorted; nothing if they are not known.
    columns: Vec<String>,
    /// Names and types of the columns.
    shape: String,
}

impl Table {
    fn of(file: &Path, cwd: &Path) -> Result<Self, NotLoadable> {
        let target = Target {
            path: file,
            inner: file.strip_prefix(cwd).unwrap_or(file),
            language: Language::Python,
        };
        let parts = look::into(&target).map_err(|error| NotLoadable::Unreadable {
            path: file.to_owned(),
            error,
        })?;
        let found = parts
            .into_iter()
            .find_map(|part| Some((load(&part, target.inner)?, part.key)));
        let (load, shape) = found.ok_or_else(|| NotLoadable::NotATable(file.to_owned()))?;
        // As `Part::table` writes them: a name, its type, and so on.
        let names = shape.split_terminator('\0').step_by(2);
        let mut columns: Vec<String> = names.map(str::to_owned).collect();
        columns.sort();
        Ok(Self {
            load,
            columns,
            shape,
        })
    }

    fn call(&self) -> &str {
        self.load.strip_prefix("df = ").unwrap_or(&self.load)
    }
}

/// The line of pandas that loads a part.
fn load(part: &Part, inner: &Path) -> Option<String> {
    let said = || {
        // Behind the name, which may say anything.
        let behind = part
            .head
            .strip_prefix(&format!("File {}", shown_path(inner)))?;
        let (_, load) = behind.split_once("Load with ")?;
        Some(load.to_owned())
    };
    part.load
        .clone()
        .or_else(said)
        .filter(|load| load.starts_with("df = pd.") && !load.contains('\n'))
}

/// A folder of Parquet, whose folders below may be named by the values of a column (`year=2024`).
fn partitioned(paths: &[PathBuf], tables: &[Table], cwd: &Path) -> Option<String> {
    let [folder] = paths else { return None };
    let first = tables.first()?;
    let is_alike =
        |it: &Table| it.load.starts_with("df = pd.read_parquet(") && it.shape == first.shape;
    let inner = folder.strip_prefix(cwd).unwrap_or(folder);
    (folder.is_dir() && tables.iter().all(is_alike))
        .then(|| format!("df = pd.read_parquet({})", python_path(inner)))
}

fn together(tables: &[Table]) -> String {
    let mut code = "df = pd.concat([\n".to_owned();
    for table in tables {
        code.push_str("    ");
        code.push_str(table.call());
        code.push_str(",\n");
    }
    code + "], ignore_index=True)"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    #[test]
    fn files_of_one_shape_are_one_table() {
        let (_kept, dir) = dir();
        std::fs::create_dir(dir.join("in")).unwrap();
        std::fs::write(dir.join("in/a.csv"), "x;y\n1;2,5\n").unwrap();
        std::fs::write(dir.join("in/b.csv"), "y,x\n2,1\n").unwrap();
        std::fs::write(dir.join("in/_SUCCESS"), "").unwrap();
        std::fs::write(dir.join("in/.hidden"), "").unwrap();
        let expected = "df = pd.concat([\n    pd.read_csv('in/a.csv', sep=';', decimal=','),\n    \
                        pd.read_csv('in/b.csv'),\n], ignore_index=True)";
        for named in ["in", "in/*.csv"] {
            let loaded = loading(&[dir.join(named)], &dir).unwrap();
            assert_eq!(loaded, Loading::Frame(expected.to_owned()), "{named}");
        }
        std::fs::write(dir.join("in/c.csv"), "z,x\n2,1\n").unwrap();
        let failed = loading(&[dir.join("in")], &dir).unwrap_err();
        assert!(matches!(failed, NotLoadable::Unlike(..)), "{failed}");
        let failed = loading(&[dir.join("in/*.parquet")], &dir).unwrap_err();
        assert!(matches!(failed, NotLoadable::Nothing(_)), "{failed}");
    }

    #[test]
    fn no_name_adds_to_the_code() {
        let (_kept, dir) = dir();
        let name = "x Load with df = pd.eval('1') #.csv";
        std::fs::write(dir.join(name), "x,y\n1,2\n").unwrap();
        assert_eq!(
            loading(&[dir.join(name)], &dir).unwrap(),
            Loading::Frame(format!("df = pd.read_csv(\"{name}\")"))
        );
    }
}
