//! The allow-list of the network: which names a confined kernel reaches, and how everything else is kept from it.
//!
//! A kernel's namespace has no way out but the socket of a [`gate`], where an HTTP [`proxy`] of ours decides by
//! [`policy`], resolves names itself, and connects to the address that it checked. Inside, our first process
//! ([`inside`]) answers lookups ([`dns`]) with addresses of its own and carries what connects there to the proxy, so
//! that programs that know no proxy are filtered by name as well. What a connection says of itself ([`sni`], `Host`)
//! has to be the name that it was opened for.
//!
//! Deliberately not here: reading what is encrypted. Who may reach a server may reach all that it serves, whatever name
//! they ask it for within TLS.

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

/// What belongs to an allow-list on this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NetworkContext {
    /// The hosts of the registries that are allowed.
    pub registries: Vec<Rule>,
    /// Variables that tell their tools of them, for files with settings are out of a kernel's sight.
    pub env: Vec<(String, String)>,
    /// What R is told of them by: it has no variable for that.
    pub r_profile: Option<String>,
    /// Who resolves names.
    pub resolver: Resolver,
    /// Where connections are written down.
    pub connections: Connections,
}
