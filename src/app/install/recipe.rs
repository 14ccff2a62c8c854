//! How kernels are installed, as data: `kernelspecs/<name>/recipe.toml` and `kernel.json`, embedded in the binary.
//!
//! The fields are explained in kernelspecs/README.md. What they make the program do is in `install` and `system`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::Failure;

/// A kernel that can be installed.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// The kernelspec's name.
    pub name: &'static str,
    /// Our kernel.json, with `{node}` and `{cargo}` for the private prefixes besides Jupyter's own templates.
    pub kernel_json: &'static str,
    /// What to do.
    pub steps: Steps,
}

/// recipe.toml.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// What it is, in a few words.
    pub summary: String,
    /// Other names that it answers to.
    #[serde(default)]
    pub also: Vec<String>,
    /// What the machine must have.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Packages for the private Python environment, as pip takes them.
    #[serde(default)]
    pub python: Vec<String>,
    /// More of them, which the kernel does not need to start: installed once it works.
    #[serde(default)]
    pub more: Vec<String>,
    /// The same of npm packages.
    #[serde(default)]
    pub more_node: Vec<String>,
    /// The same of what the machine can have.
    #[serde(default)]
    pub more_needs: Vec<Need>,
    /// npm packages for the private prefix, `name@version`.
    #[serde(default)]
    pub node: Vec<String>,
    /// Crates for the private prefix, `name@version`.
    #[serde(default)]
    pub cargo: Vec<String>,
    /// More environment variables for npm and cargo.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What the person should know before it starts.
    pub note: Option<String>,
    /// What tells that the kernel works.
    pub check: Check,
}

/// Something that the machine must have. Exactly one of `program`, `file` and `run` is there.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// A program on PATH.
    pub program: Option<String>,
    /// Any of these files.
    #[serde(default)]
    pub file: Vec<String>,
    /// A command that must succeed.
    #[serde(default)]
    pub run: Vec<String>,
    /// The Debian packages that have it.
    pub debian: Vec<String>,
    /// What for.
    pub why: String,
}

/// A cell that tells that the kernel works.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The cell.
    pub code: String,
    /// What it must print.
    pub expect: String,
}

macro_rules! embedded {
    ($($name:literal),+ $(,)?) => {
        [$((
            $name,
            include_str!(concat!("../../../kernelspecs/", $name, "/recipe.toml")),
            include_str!(concat!("../../../kernelspecs/", $name, "/kernel.json")),
        )),+]
    };
}

const EMBEDDED: [(&str, &str, &str); 8] = embedded!(
    "python3",
    "bash",
    "javascript",
    "deno",
    "r",
    "java",
    "rust",
    "gnuplot",
);

/// The names of all recipes.
pub fn names() -> [&'static str; EMBEDDED.len()] {
    EMBEDDED.map(|(name, _, _)| name)
}

/// The recipe that answers to `name`.
///
/// # Errors
/// There is none; the names there are, as a hint.
pub fn find(name: &str) -> Result<Recipe, Failure> {
    let wanted = name.to_lowercase();
    for (name, steps, kernel_json) in EMBEDDED {
        let steps: Steps = toml::from_str(steps).map_err(|error| {
            Failure::usage(format!("the recipe of `{name}` is broken: {error}"))
        })?;
        if name == wanted || steps.also.contains(&wanted) {
            return Ok(Recipe {
                name,
                kernel_json,
                steps,
            });
        }
    }
    Err(
        Failure::usage(format!("it is not known how to install kernel `{name}`")).hint(format!(
            "there are: {}; other kernels work too once Jupyter finds them, see `sponde kernels`",
            names().join(", ")
        )),
    )
}

impl Need {
    /// What it is, for people.
    pub fn what(&self) -> String {
        match (&self.program, self.file.first()) {
            (Some(program), _) => format!("the program `{program}`"),
            (None, Some(file)) => format!("`{file}`"),
            (None, None) => format!("a working `{}`", self.run.join(" ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::kernelspec::KernelSpec;

    #[test]
    fn every_recipe_can_be_read() {
        for name in names() {
            let recipe = find(name).unwrap();
            assert_eq!(recipe.name, name);
            let spec = KernelSpec::parse(recipe.kernel_json.as_bytes()).unwrap();
            assert!(spec.display_name.contains("Sponde"), "{spec:?}");
            for need in recipe
                .steps
                .needs
                .into_iter()
                .chain(recipe.steps.more_needs)
            {
                let ways = [
                    need.program.is_some(),
                    !need.file.is_empty(),
                    !need.run.is_empty(),
                ];
                assert_eq!(
                    ways.iter().filter(|&&way| way).count(),
                    1,
                    "{name}: {need:?}"
                );
                assert!(!need.debian.is_empty(), "{name}: {need:?}");
            }
        }
    }

    #[test]
    fn a_kernel_answers_to_other_names() {
        assert_eq!(find("TypeScript").unwrap().name, "deno");
        assert_eq!(find("R").unwrap().name, "r");
        let failure = find("cobol").unwrap_err();
        assert_eq!(
            failure.message,
            "it is not known how to install kernel `cobol`"
        );
    }
}
