//! Commands that run beside a kernel, with the rights of its code.

use std::path::Path;

use tokio::process::Command;

use super::launch::environment;
use super::sandbox::{self, CommandError, CommandInput, Sandbox};
use super::source::KernelSource;

/// Names and values.
type Variables = [(String, String)];

/// `argv` in `cwd` with this input, confined like the code of `kernel`. `base` is the environment to start from, whose
/// secrets are removed; the variables in `more` are passed unchanged.
///
/// # Errors
/// If it cannot be confined here.
pub fn command_beside(
    kernel: &KernelSource,
    sandbox: &Sandbox,
    argv: &[String],
    (base, more): (&Variables, &Variables),
    (cwd, input): (&Path, CommandInput),
) -> Result<Command, CommandError> {
    let mut env = environment(base, kernel);
    let set = |env: &mut Vec<(String, String)>| {
        env.retain(|(name, _)| !more.iter().any(|(new, _)| new == name));
        env.extend(more.iter().cloned());
    };
    match sandbox {
        Sandbox::Full => {
            set(&mut env);
            let mut command = Command::new(argv.first().map_or("", String::as_str));
            command.args(argv.iter().skip(1));
            command.env_clear().envs(env).current_dir(cwd);
            Ok(command)
        }
        Sandbox::Confined(confinement) => {
            let env = (env, more.to_vec());
            sandbox::confined(confinement, kernel, argv, env, cwd, input)
        }
    }
}
