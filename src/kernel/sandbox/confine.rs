//! Implements `sponde __confine ORDER COMMAND...`: drops its own rights, then starts a kernel with what is left.
//!
//! In namespaces it is the first process, with which Linux ends all others: it starts the kernel, reaps processes that
//! end, and reports on its stdout, one line each: `started PID`, `PID exited STATUS`, `PID signalled NUMBER`. Where the
//! kernel cannot be signalled from outside, it reads lines `signal NUMBER` from its stdin. Without namespaces it
//! becomes the kernel, so that nothing else about the process changes.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, kill_process_group, set_dumpable_behavior, wait,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use serde::{Deserialize, Serialize};

use super::bridge::Bridge;
use super::landlock::{self, Reach};
use super::limits::{Limits, processes_of_this_user};
use super::net::inside;
use super::sealed::unsealed;
use super::seccomp::{self, Internet};

/// The first argument that selects this mode of our program.
pub const CONFINE: &str = "__confine";

/// What to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) how: How,
    pub(super) limits: Limits,
    pub(super) internet: Internet,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum How {
    /// As the first process of its namespaces.
    First {
        bridge: Option<Bridge>,
        /// The inner end of the network, if hosts are allowed by name.
        network: Option<inside::Order>,
    },
    /// Replaces this process with the kernel.
    InPlace(Reach),
    /// The same in namespaces whose first process is another.
    Within,
}

impl Order {
    /// The command line for running `command`, without our own program.
    pub(super) fn arguments(&self, command: &[String]) -> Result<Vec<String>, String> {
        let order = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let mut arguments = vec![CONFINE.to_owned(), order];
        arguments.extend_from_slice(command);
        Ok(arguments)
    }
}

/// Carries out the arguments after [`CONFINE`], with the variables of this process. Returns an exit status only as the
/// first process of namespaces.
///
/// # Errors
/// What was refused; nothing was started.
pub fn confine(
    mut arguments: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<u8, String> {
    let order = arguments.next().ok_or("there is no order")?;
    let order: Order =
        serde_json::from_slice(order.as_encoded_bytes()).map_err(|error| error.to_string())?;
    let program = arguments.next().ok_or("there is no command")?;
    let mut command = Command::new(&program);
    command
        .args(arguments)
        .env_clear()
        .envs(unsealed(variables));
    let others = match &order.how {
        // In a user namespace of its own, only what is started there counts.
        How::First { .. } | How::Within => 0,
        // The user's other programs count too, and must not keep the kernel from starting.
        How::InPlace(_) => processes_of_this_user(),
    };
    order.limits.apply(others);
    let (how, network) = match order.how {
        How::First { bridge, network } => {
            let bound = network.map(inside::Order::bind).transpose();
            let bound = bound.map_err(|error| format!("ports for its network: {error}"))?;
            (
                How::First {
                    bridge,
                    network: None,
                },
                bound,
            )
        }
        how @ (How::InPlace(_) | How::Within) => (how, None),
    };
    // Root's capabilities over other processes and files would bypass both tiers.
    let nothing = CapabilitySet::empty();
    let none = CapabilitySets {
        effective: nothing,
        permitted: nothing,
        inheritable: nothing,
    };
    set_capabilities(None, none).map_err(|error| error.to_string())?;
    match how {
        How::InPlace(reach) => {
            landlock::apply(&reach)?;
            seccomp::apply(order.internet)?;
            Err(failed(&program, &command.exec()))
        }
        How::Within => {
            seccomp::apply(order.internet)?;
            Err(failed(&program, &command.exec()))
        }
        How::First { bridge, .. } => {
            // Code in the kernel must not be able to read or change this process.
            set_dumpable_behavior(DumpableBehavior::NotDumpable)
                .map_err(|error| error.to_string())?;
            seccomp::apply(order.internet)?;
            if let Some(bridge) = bridge {
                bridge
                    .open()
                    .map_err(|error| format!("sockets for the kernel: {error}"))?;
            }
            if let Some(network) = network {
                network
                    .serve()
                    .map_err(|error| format!("its network: {error}"))?;
            }
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .process_group(0);
            let kernel = command
                .spawn()
                .map_err(|error| failed(&program, &error))?
                .id();
            report(&format!("started {kernel}"));
            std::thread::spawn(move || pass_signals(kernel));
            Ok(collect(kernel))
        }
    }
}

fn failed(program: &OsString, error: &std::io::Error) -> String {
    format!("`{}`: {error}", program.to_string_lossy())
}

/// Passes signals from stdin on to the kernel's process group.
fn pass_signals(kernel: u32) -> Option<()> {
    let group = Pid::from_raw(i32::try_from(kernel).ok()?)?;
    for line in std::io::stdin().lines() {
        let line = line.ok()?;
        let number = line
            .strip_prefix("signal ")
            .and_then(|number| number.parse().ok());
        if let Some(signal) = number.and_then(Signal::from_named_raw) {
            // A group that has already gone is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }
    Some(())
}

/// Reaps processes until none is left; returns the kernel's status.
fn collect(kernel: u32) -> u8 {
    let mut status = 0;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, ended))) => {
                let pid = pid.as_raw_nonzero();
                let (words, code) = match (ended.exit_status(), ended.terminating_signal()) {
                    (Some(code), _) => (format!("{pid} exited {code}"), code),
                    (None, Some(signal)) => (format!("{pid} signalled {signal}"), 128 + signal),
                    (None, None) => continue,
                };
                if pid.get().unsigned_abs() == kernel {
                    status = u8::try_from(code).unwrap_or(1);
                }
                report(&words);
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return status,
        }
    }
}

fn report(line: &str) {
    // Nobody may listen any more to a kernel that was kept.
    let _ = rustix::io::write(rustix::stdio::stdout(), format!("{line}\n").as_bytes());
}
