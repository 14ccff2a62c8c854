//! Decides whether a connection is allowed, and to which addresses.
//!
//! Names are resolved only here, so that the address that was checked is the one connected to. An address that is not
//! public is refused unless a rule names it: code must not reach this machine, its network or a cloud's credential
//! service through a name that somebody else has pointed there.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::rule::{self, Net, Rule};

/// The most common reason for a refusal.
pub(super) const NOT_LISTED: &str = "the host is not on the allow-list";
/// How long resolving a name may take.
const RESOLVE_WITHIN: Duration = Duration::from_secs(15);
/// Most addresses of a name that are tried.
const ADDRESSES: usize = 4;

/// The rules for one kernel.
#[derive(Debug, Clone, Default)]
pub(in crate::kernel::sandbox) struct Policy {
    rules: Vec<Rule>,
    /// The allow-list as text for people.
    words: String,
    resolver: Resolver,
}

/// Resolves a name to addresses with a port.
pub type Resolve = dyn Fn(&str, u16) -> Vec<SocketAddr> + Send + Sync;

/// How names are resolved.
#[derive(Clone, Default)]
pub enum Resolver {
    /// By this machine.
    #[default]
    System,
    /// By a function of name and port.
    Given(Arc<Resolve>),
}

/// A host and port to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// A name in lower case, or an address.
    pub(super) host: String,
    pub(super) port: u16,
}

/// Where an allowed connection may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) addresses: Vec<SocketAddr>,
    /// Whether any protocol may be spoken there, because the user named the port.
    pub(super) is_raw: bool,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum No {
    /// It is not allowed.
    Refused(String),
    /// It is allowed but failed.
    Failed(String),
}

impl Policy {
    pub(in crate::kernel::sandbox) fn new(
        rules: Vec<Rule>,
        words: String,
        resolver: Resolver,
    ) -> Self {
        Self {
            rules,
            words,
            resolver,
        }
    }

    /// The allow-list as text for people.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    pub(in crate::kernel::sandbox) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether any port of a host is allowed.
    pub(super) fn is_known(&self, host: &str) -> bool {
        self.rules.iter().any(|rule| rule.covers_host(host))
    }

    /// Where a connection to `target` may go.
    pub(super) async fn way(&self, target: &Target) -> Result<Way, No> {
        let Target { host, port } = target;
        if !self.is_known(host) {
            return Err(No::Refused(NOT_LISTED.to_owned()));
        }
        let rules: Vec<&Rule> = self
            .rules
            .iter()
            .filter(|it| it.covers(host, *port))
            .collect();
        if rules.is_empty() {
            return Err(No::Refused(format!(
                "port {port} of this host is not on the allow-list"
            )));
        }
        let nets: Vec<&Net> = rules.iter().flat_map(|rule| &rule.nets).collect();
        let found = self.resolve(host, *port).await?;
        let mut refused = None;
        let mut addresses = Vec::new();
        for address in found {
            // An address that is itself on the list is allowed.
            let is_named = host.parse() == Ok(address.ip())
                || host == "localhost" && address.ip().is_loopback()
                || nets.iter().any(|net| net.contains(address.ip()));
            match not_public(address.ip()) {
                Some(what) if !is_named => refused = Some((address.ip(), what)),
                Some(_) | None => addresses.push(address),
            }
        }
        addresses.truncate(ADDRESSES);
        match refused {
            Some((address, what)) if addresses.is_empty() => Err(No::Refused(format!(
                "it resolves to {address}, {what}; to permit that, allow `{host}={address}`"
            ))),
            Some(_) | None if addresses.is_empty() => {
                Err(No::Failed("the name has no address".to_owned()))
            }
            Some(_) | None => Ok(Way {
                addresses,
                is_raw: !rule::WEB.contains(port),
            }),
        }
    }

    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, No> {
        if let Ok(address) = host.parse() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        match &self.resolver {
            Resolver::Given(function) => Ok(function(host, port)),
            Resolver::System => {
                let looking = tokio::net::lookup_host((host, port));
                match tokio::time::timeout(RESOLVE_WITHIN, looking).await {
                    Ok(Ok(found)) => Ok(found.collect()),
                    Ok(Err(error)) => Err(No::Failed(format!(
                        "the name could not be looked up: {error}"
                    ))),
                    Err(_) => Err(No::Failed("looking up the name took too long".to_owned())),
                }
            }
        }
    }
}

impl Rule {
    /// For a host from the user's own settings: also allows the private addresses that it has now.
    #[must_use]
    pub async fn as_it_is_set_up(self) -> Self {
        let Some((host, port)) = self.host_and_port() else {
            return self;
        };
        let found = Policy::default().resolve(&host, port).await;
        // If the name has no address, that is reported when it is used.
        let addresses = found.into_iter().flatten().map(|address| address.ip());
        self.leading_to(addresses.filter(|&address| not_public(address).is_some()))
    }
}

impl Target {
    /// Parses `host:port`; the port may be omitted if there is a `usual` one.
    pub(super) fn parse(authority: &str, usual: Option<u16>) -> Option<Self> {
        let (host, port) = rule::split_port(authority)?;
        let host = match host.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => rule::name(host).ok()?,
        };
        Some(Self {
            host,
            port: port.or(usual)?,
        })
    }

    pub(super) fn is_address(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "System",
            Self::Given(_) => "Given",
        })
    }
}

impl PartialEq for Resolver {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::System, Self::System) => true,
            (Self::Given(one), Self::Given(other)) => Arc::ptr_eq(one, other),
            (Self::System, Self::Given(_)) | (Self::Given(_), Self::System) => false,
        }
    }
}

/// What kind of address it is, if it is not public.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    let what = match address {
        IpAddr::V4(address) => not_public_4(address),
        IpAddr::V6(address) => not_public_6(address),
    };
    what.or_else(|| is_own(address).then_some("an address of this machine"))
}

/// By the registry of special-purpose addresses (RFC 6890 and its successors).
fn not_public_4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [127, ..] => "this machine",
        [0, ..] => "an address without a network",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private address",
        [169, 254, ..] => "a link-local address, where clouds keep credentials",
        // Platforms have their own services there.
        [100, 64..=127, ..] | [192, 0, 0, _] | [168, 63, 129, 16] => {
            "an address of a provider's own network"
        }
        [224..=239, ..] => "a multicast address",
        [240..=255, ..] => "a reserved address",
        _ => return None,
    })
}

fn not_public_6(address: Ipv6Addr) -> Option<&'static str> {
    let octets = address.octets();
    let embedded = |at: usize| match octets.get(at..at + 4) {
        Some(&[a, b, c, d]) => not_public_4(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("this machine"),
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an address without a network"),
        // IPv4 addresses in IPv6 form: mapped, compatible, NAT64 and 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(12),
        [0x2002, ..] => embedded(2),
        [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => Some("an address that stands for another"),
        [first, ..] if first & 0xfe00 == 0xfc00 => Some("a private address"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Some("a link-local address"),
        [first, ..] if first & 0xffc0 == 0xfec0 => Some("a private address"),
        [first, ..] if first & 0xff00 == 0xff00 => Some("a multicast address"),
        _ => None,
    }
}

/// Whether an address belongs to this machine: then it can be bound, unless every address can.
fn is_own(address: IpAddr) -> bool {
    let can_bind = |address: IpAddr| std::net::UdpSocket::bind((address, 0)).is_ok();
    // No machine has the addresses reserved for documentation (RFC 5737, RFC 3849).
    let nobodys: IpAddr = if address.is_ipv4() {
        Ipv4Addr::new(192, 0, 2, 254).into()
    } else {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfffe).into()
    };
    can_bind(address) && (address == nobodys || !can_bind(nobodys))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str]) -> Policy {
        let given = |host: &str, port| {
            let addresses: &[&str] = match host {
                "public.org" => &["203.0.113.5"],
                "both.org" => &["10.0.0.1", "203.0.113.5"],
                "rebound.org" => &["169.254.169.254"],
                "mapped.org" => &["::ffff:127.0.0.1"],
                "localhost" => &["127.0.0.1", "::1"],
                "home.corp" => &["10.1.2.3"],
                _ => &[],
            };
            let parsed = addresses.iter().map(|text| text.parse().unwrap());
            parsed
                .map(|address| SocketAddr::new(address, port))
                .collect()
        };
        Policy::new(
            rules.iter().map(|rule| rule.parse().unwrap()).collect(),
            String::new(),
            Resolver::Given(Arc::new(given)),
        )
    }

    async fn ways(rules: &[&str], authority: &str) -> Result<Vec<String>, No> {
        let target = Target::parse(authority, Some(443)).unwrap();
        let way = policy(rules).way(&target).await?;
        Ok(way.addresses.iter().map(ToString::to_string).collect())
    }

    fn refused(words: &str) -> Result<Vec<String>, No> {
        Err(No::Refused(words.to_owned()))
    }

    #[tokio::test]
    async fn only_what_a_rule_names_has_a_way() {
        let public = || Ok(vec!["203.0.113.5:443".to_owned()]);
        assert_eq!(ways(&["public.org"], "public.org").await, public());
        assert_eq!(ways(&["both.org"], "both.org").await, public());
        let host = "the host is not on the allow-list";
        assert_eq!(ways(&["public.org"], "other.org").await, refused(host));
        assert_eq!(ways(&["public.org"], "203.0.113.5").await, refused(host));
        assert_eq!(
            ways(&["public.org"], "public.org:22").await,
            refused("port 22 of this host is not on the allow-list")
        );
        let nothing = Err(No::Failed("the name has no address".to_owned()));
        assert_eq!(ways(&["*.org"], "gone.org").await, nothing);
    }

    #[tokio::test]
    async fn private_addresses_have_to_be_named() {
        assert_eq!(
            ways(&["rebound.org"], "rebound.org").await,
            refused(
                "it resolves to 169.254.169.254, a link-local address, where clouds keep credentials; to permit that, allow \
                 `rebound.org=169.254.169.254`"
            )
        );
        let mapped = ways(&["mapped.org"], "mapped.org").await;
        assert!(matches!(mapped, Err(No::Refused(_))), "{mapped:?}");
        let home = || Ok(vec!["10.1.2.3:443".to_owned()]);
        assert_eq!(ways(&["home.corp=10.1.0.0/16"], "home.corp").await, home());
        let other = ways(&["home.corp=10.2.0.0/16"], "home.corp").await;
        assert!(matches!(other, Err(No::Refused(_))), "{other:?}");
        assert_eq!(ways(&["10.1.2.3"], "10.1.2.3").await, home());
        // The address was named for one host only.
        let other = ways(&["10.1.2.3", "home.corp"], "home.corp").await;
        assert!(matches!(other, Err(No::Refused(_))), "{other:?}");
        let own = ["127.0.0.1:443", "[::1]:443"].map(str::to_owned);
        assert_eq!(ways(&["localhost"], "localhost").await, Ok(own.into()));
    }

    #[test]
    fn addresses_that_not_everybody_reaches_are_known() {
        for address in [
            "127.0.0.1",
            "127.1.2.3",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
        ] {
            assert!(not_public(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in [
            "203.0.113.80",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1",
            "::ffff:1.1.1.1",
        ] {
            assert_eq!(not_public(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn targets_are_read_strictly() {
        for (text, target) in [
            ("Example.org:443", Some("example.org:443")),
            ("example.org.:443", Some("example.org:443")),
            ("[::1]:80", Some("[::1]:80")),
            ("127.0.0.1:80", Some("127.0.0.1:80")),
            ("127.1:80", None),
            ("2130706433:80", None),
            ("0x7f000001:80", None),
            ("a b:80", None),
            ("user@example.org:80", None),
            ("example.org", None),
            ("example.org:0", None),
            ("exa\u{0}mple.org:1", None),
            (":80", None),
        ] {
            let found = Target::parse(text, None).map(|it| it.to_string());
            assert_eq!(found.as_deref(), target, "{text}");
        }
    }
}
