//! System calls that a confined kernel cannot make.
//!
//! They cover what namespaces and Landlock leave open and data code does not need: other processes' memory, mounts, new
//! namespaces, io_uring (which creates sockets without `socket`), keys, bpf, typing into a terminal, and sockets of all
//! families except unix and IP (AF_VSOCK reaches the host of a virtual machine from any network namespace).
//!
//! The error code matters: libzmq aborts the kernel if a netlink socket is not *permitted*, so it is not *supported*;
//! glibc falls back to `clone`, whose flags a filter can check, if `clone3` does not exist.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use serde::{Deserialize, Serialize};

/// Which internet sockets are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Internet {
    /// All: another mechanism restricts them.
    Any,
    /// Only TCP: nothing else would restrict datagrams.
    TcpOnly,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

const ARCH: Result<TargetArch, ()> = if cfg!(target_arch = "x86_64") {
    Ok(TargetArch::x86_64)
} else if cfg!(target_arch = "aarch64") {
    Ok(TargetArch::aarch64)
} else {
    Err(())
};

/// Calls that are never permitted.
const NEVER: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Flags of `clone` that create namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Applies the filters to this thread and everything that it starts.
///
/// # Errors
/// Why a filter could not be built or applied.
pub(super) fn apply(internet: Internet) -> Result<(), String> {
    for program in programs(internet)? {
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// One filter for each error code; the kernel consults all of them.
fn programs(internet: Internet) -> Result<Vec<BpfProgram>, String> {
    let arch = ARCH.map_err(|()| "there is no filter for this processor".to_owned())?;
    let mut programs = Vec::new();
    for (rules, errno) in [
        (not_permitted(internet)?, libc::EPERM),
        (not_supported()?, libc::EOPNOTSUPP),
        (Rules::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS),
    ] {
        let errno = SeccompAction::Errno(errno.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch);
        let program: BpfProgram = filter
            .and_then(TryInto::try_into)
            .map_err(|error| error.to_string())?;
        programs.push(program);
    }
    if cfg!(target_arch = "x86_64") {
        programs.push(no_x32());
    }
    Ok(programs)
}

fn not_permitted(internet: Internet) -> Result<Rules, String> {
    let mut rules: Rules = NEVER.iter().map(|&call| (call, Vec::new())).collect();
    let clone = NAMESPACES
        .iter()
        .map(|&flag| rule(&[masked(0, flag)?]))
        .collect::<Result<_, _>>()?;
    rules.insert(libc::SYS_clone, clone);
    let ioctl = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| rule(&[is(1, request)?]));
    rules.insert(
        libc::SYS_ioctl,
        ioctl.into_iter().collect::<Result<_, _>>()?,
    );
    // Netlink gets another error code.
    let other = [
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
    ];
    let other = other.map(|family| is_not(0, family));
    let mut socket = vec![rule(&other.into_iter().collect::<Result<Vec<_>, _>>()?)?];
    if internet == Internet::TcpOnly {
        for family in [libc::AF_INET, libc::AF_INET6] {
            // The type has flags above its lowest four bits (SOCK_CLOEXEC, SOCK_NONBLOCK).
            for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET] {
                socket.push(rule(&[is(0, family)?, is_kind(kind)?])?);
            }
        }
    }
    rules.insert(libc::SYS_socket, socket);
    rules.insert(
        libc::SYS_socketpair,
        vec![rule(&[is_not(0, libc::AF_UNIX)?])?],
    );
    Ok(rules)
}

fn not_supported() -> Result<Rules, String> {
    let netlink = rule(&[is(0, libc::AF_NETLINK)?])?;
    Ok(Rules::from([(libc::SYS_socket, vec![netlink])]))
}

fn rule(conditions: &[SeccompCondition]) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions.to_vec()).map_err(|error| error.to_string())
}

fn is(argument: u8, value: impl TryInto<u32>) -> Result<SeccompCondition, String> {
    compared(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: libc::c_int) -> Result<SeccompCondition, String> {
    compared(argument, SeccompCmpOp::Ne, value)
}

fn is_kind(kind: libc::c_int) -> Result<SeccompCondition, String> {
    compared(1, SeccompCmpOp::MaskedEq(0xf), kind)
}

fn masked(argument: u8, flag: libc::c_int) -> Result<SeccompCondition, String> {
    let flag = flag.unsigned_abs();
    compared(argument, SeccompCmpOp::MaskedEq(u64::from(flag)), flag)
}

/// These arguments are `int`s: only the lower half of the register counts.
fn compared(
    argument: u8,
    how: SeccompCmpOp,
    value: impl TryInto<u32>,
) -> Result<SeccompCondition, String> {
    let value = value
        .try_into()
        .map_err(|_| "a negative constant".to_owned())?;
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, u64::from(value))
        .map_err(|error| error.to_string())
}

/// Denies the x32 interface of x86-64: its calls have numbers of their own, which no rule names (seccomp(2)).
fn no_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let instruction = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    let load = u16::try_from(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS).unwrap_or_default();
    let jump = u16::try_from(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K).unwrap_or_default();
    let answer = u16::try_from(libc::BPF_RET | libc::BPF_K).unwrap_or_default();
    vec![
        // The number of the call comes first in `seccomp_data`.
        instruction(load, 0, 0, 0),
        instruction(jump, 0, 1, X32),
        instruction(
            answer,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        instruction(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_built_for_this_processor() {
        for internet in [Internet::Any, Internet::TcpOnly] {
            let programs = programs(internet).unwrap();
            assert_eq!(
                programs.len(),
                3 + usize::from(cfg!(target_arch = "x86_64"))
            );
            // The kernel accepts no more (BPF_MAXINSNS).
            assert!(programs.iter().all(|program| program.len() < 4096));
        }
    }
}
