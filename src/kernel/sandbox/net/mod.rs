//! The network allow-list: which names a confined kernel can reach, and how everything else is blocked.
//!
//! The only way out of a kernel's namespace is the socket of a [`gate`]. There our HTTP [`proxy`] decides by
//! [`policy`], resolves names itself, and connects to the address that it checked. Inside, our first process
//! ([`inside`]) answers lookups ([`dns`]) with its own addresses and forwards connections to the proxy, so that
//! programs that know no proxy are filtered by name as well. The name that a connection itself gives ([`sni`], `Host`)
//! must be the one that it was opened for.
//!
//! Deliberately not here: reading encrypted data. Code that may reach a server may reach everything on it, whatever
//! name it requests within TLS.

pub(super) mod dns;
pub(super) mod gate;
pub(super) mod inside;
mod pace;
mod policy;
mod proxy;
mod record;
mod rule;
mod serve;
mod sni;
mod tunnel;

pub(in crate::kernel) use gate::Gate;
pub use pace::Pace;
pub(super) use policy::Policy;
pub use policy::{Resolve, Resolver};
pub use record::{Connection, ConnectionEnd, Connections};
pub use rule::{AllowList, Network, Registry, Rule};

/// What an allow-list needs from this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkContext {
    /// The hosts of the allowed registries.
    pub registries: Vec<Rule>,
    /// Variables that point the registries' tools to them, because the kernel cannot see their configuration files.
    pub env: Vec<(String, String)>,
    /// The same for R, as a profile, because it has no such variable.
    pub r_profile: Option<String>,
    /// Resolves names.
    pub resolver: Resolver,
    /// Where connections are recorded.
    pub connections: Connections,
}
