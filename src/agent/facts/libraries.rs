//! Which of the usual libraries a kernel's environment has, read off its directories: nothing is run, no kernel waited
//! for, a few milliseconds at most.

use std::path::{Path, PathBuf};

use crate::kernel::KernelSource;

/// Distributions of Python that are worth a word, under the names they are imported by.
const PYTHON: [(&str, &str); 22] = [
    ("pandas", "pandas"),
    ("polars", "polars"),
    ("numpy", "numpy"),
    ("pyarrow", "pyarrow"),
    ("duckdb", "duckdb"),
    ("scipy", "scipy"),
    ("statsmodels", "statsmodels"),
    ("scikit-learn", "sklearn"),
    ("xgboost", "xgboost"),
    ("torch", "torch"),
    ("tensorflow", "tensorflow"),
    ("matplotlib", "matplotlib"),
    ("seaborn", "seaborn"),
    ("plotly", "plotly"),
    ("altair", "altair"),
    ("bokeh", "bokeh"),
    ("sympy", "sympy"),
    ("networkx", "networkx"),
    ("geopandas", "geopandas"),
    ("openpyxl", "openpyxl"),
    ("sqlalchemy", "sqlalchemy"),
    ("requests", "requests"),
];

/// Packages of R.
const R: [&str; 10] = [
    "tidyverse",
    "dplyr",
    "tidyr",
    "readr",
    "ggplot2",
    "data.table",
    "lubridate",
    "stringr",
    "arrow",
    "jsonlite",
];

/// The libraries of `kernel` with their versions, as `pandas 2.3, numpy 2.2`; empty if none are known.
pub(super) fn of(kernel: &KernelSource) -> String {
    let language = kernel.spec.language.to_ascii_lowercase();
    let found = match language.as_str() {
        "python" => python(&python_packages(kernel)),
        "r" => r(&R_LIBRARIES.map(PathBuf::from)),
        _ => Vec::new(),
    };
    found.join(", ")
}

/// Whether the environment of `kernel`, which is one of Python, has this library.
pub fn has_library(kernel: &KernelSource, name: &str) -> bool {
    let found = python(&python_packages(kernel));
    found.iter().any(|it| it.split(' ').next() == Some(name))
}

/// Where Debian and R itself put packages.
const R_LIBRARIES: [&str; 4] = [
    "/usr/local/lib/R/site-library",
    "/usr/lib/R/site-library",
    "/usr/lib/R/library",
    "/usr/local/lib/R/library",
];

/// The `site-packages` of a kernel's interpreter.
fn python_packages(kernel: &KernelSource) -> Vec<PathBuf> {
    let program = kernel.spec.argv.first().map(Path::new);
    let of_program = program
        .filter(|program| program.is_absolute())
        .and_then(|program| Some(program.parent()?.parent()?.to_owned()));
    let Some(prefix) = of_program.or_else(|| kernel.prefix.clone()) else {
        return Vec::new();
    };
    let mut dirs = Vec::new();
    for part in ["lib", "lib64"] {
        for entry in std::fs::read_dir(prefix.join(part))
            .into_iter()
            .flatten()
            .flatten()
        {
            dirs.push(entry.path().join("site-packages"));
            dirs.push(entry.path().join("dist-packages"));
        }
    }
    dirs
}

fn python(dirs: &[PathBuf]) -> Vec<String> {
    let mut versions: Vec<Option<String>> = vec![None; PYTHON.len()];
    for dir in dirs {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            // `scikit_learn-1.7.2.dist-info` (Python packaging specifications, "Recording installed projects").
            let Some((distribution, version)) = name
                .to_str()
                .and_then(|name| {
                    name.strip_suffix(".dist-info")
                        .or_else(|| name.strip_suffix(".egg-info"))
                })
                .and_then(|name| name.split_once('-'))
            else {
                continue;
            };
            let distribution = distribution.to_ascii_lowercase().replace(['_', '.'], "-");
            if let Some(at) = PYTHON.iter().position(|(known, _)| *known == distribution)
                && let Some(slot) = versions.get_mut(at)
            {
                slot.get_or_insert_with(|| short(version));
            }
        }
    }
    PYTHON
        .iter()
        .zip(versions)
        .filter_map(|((_, module), version)| {
            Some(format!("{module} {}", version?).trim_end().to_owned())
        })
        .collect()
}

/// Major and minor.
fn short(version: &str) -> String {
    version
        .split('.')
        .take(2)
        .take_while(|part| part.chars().all(|c| c.is_ascii_digit()))
        .collect::<Vec<_>>()
        .join(".")
}

fn r(dirs: &[PathBuf]) -> Vec<String> {
    R.into_iter()
        .filter(|package| dirs.iter().any(|dir| dir.join(package).is_dir()))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_off_directories() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "pandas-2.3.3.dist-info",
            "scikit_learn-1.7.2.dist-info",
            "PyArrow-22.0.0.dist-info",
            "numpy-2.3rc1.dist-info",
            "numpy",
            "secret_tool-1.0.dist-info",
        ] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(
            python(&[dir.path().to_owned()]),
            ["pandas 2.3", "numpy 2", "pyarrow 22.0", "sklearn 1.7"]
        );
        std::fs::create_dir(dir.path().join("dplyr")).unwrap();
        assert_eq!(r(&[dir.path().to_owned()]), ["dplyr"]);
        assert_eq!(python(&[dir.path().join("none")]), Vec::<String>::new());
    }
}
