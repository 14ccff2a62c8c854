//! Confinement of kernels that we start: what code in them can read, write and reach (docs/sandbox.md, ADR 0020).
//!
//! [`policy`] says what is permitted, [`probe`] which tier can enforce it here: [`bubblewrap`] creates namespaces, in
//! which our own program is the first process and starts the kernel ([`confine`]); [`landlock`] needs none; [`gvisor`]
//! is used only on request, [`seatbelt`] on macOS. [`net`] lets connections to allowed names through. All tiers on
//! Linux share the [`seccomp`] filters and [`limits`]. A [`cage`] is our handle on running namespaces.
//!
//! Invariants: a kernel that is to be confined never starts unconfined; everything in a cage ends with its last holder.
//!
//! Deliberately not here: kernels of gateways and of other programs, which we cannot confine.

mod bridge;
mod bubblewrap;
mod cage;
pub(super) mod cgroup;
mod command;
mod confine;
mod guest;
mod gvisor;
mod interpreter;
mod known;
mod landlock;
pub mod limits;
mod net;
mod open;
mod policy;
pub mod probe;
mod sealed;
mod seatbelt;
mod seccomp;
mod tier;
mod trial;
mod view;

pub(super) use cage::{Cage, Member};
pub use cgroup::together;
pub(super) use command::confined;
pub use command::{CommandError, CommandInput};
pub use confine::{CONFINE, confine};
pub use guest::{Guest, HOME, TMP, WORKSPACE};
pub(super) use net::Gate;
pub use net::{
    AllowList, Connection, ConnectionEnd, Connections, Network, NetworkContext, Pace, Registry,
    Resolve, Resolver, Rule,
};
pub(super) use open::{Confined, open};
pub use policy::{Confinement, Extent, Level, LevelChoice, Sandbox};
