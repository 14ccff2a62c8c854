//! The syntax of the network setting: `off`, `on`, or an allow-list.
//!
//! An entry is a host with an optional port and, after `=`, private networks that it may resolve to: `example.org`,
//! `*.example.org`, `example.org:8443`, `192.0.2.7:5432`, `db.corp=10.2.0.0/16`; or a [`Registry`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// What a confined kernel can reach over the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    #[default]
    Off,
    /// These names and no others.
    Allow(AllowList),
    /// Everything, including this machine's own services.
    On,
}

/// Entries of an allow-list, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowList(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Registry(Registry),
    Rule(Rule),
}

/// A package registry: its hosts are those that the user's own tool is configured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// Packages for Python: pip, uv.
    Pypi,
    /// Packages for R.
    Cran,
    /// Packages for JavaScript.
    Npm,
    /// conda, mamba.
    Conda,
}

/// One allowed host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub(super) host: Host,
    /// One port; without it 80 and 443.
    pub(super) port: Option<u16>,
    /// Non-public networks that the host may resolve to.
    pub(super) nets: Vec<Net>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// This name.
    Name(String),
    /// All names below this one.
    Below(String),
    Address(IpAddr),
}

/// Addresses with a common prefix of `bits` bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Net {
    address: IpAddr,
    bits: u8,
}

/// The ports of a host without an explicit port: HTTP and HTTPS.
pub(super) const WEB: [u16; 2] = [80, 443];
/// Most entries of a list.
const ENTRIES: usize = 200;
/// The longest name (RFC 1035, section 2.3.4).
const LONGEST_NAME: usize = 253;

impl Network {
    /// Whether `wanted` permits everything that this can reach.
    pub fn is_within(&self, wanted: &Self) -> bool {
        match (self, wanted) {
            (Self::Off, _) | (_, Self::On) => true,
            (Self::Allow(own), Self::Allow(wanted)) => {
                own.0.iter().all(|entry| wanted.0.contains(entry))
            }
            (Self::Allow(_) | Self::On, Self::Off) | (Self::On, Self::Allow(_)) => false,
        }
    }

    /// The allow-list, if there is one.
    pub fn allowed(&self) -> Option<&AllowList> {
        match self {
            Self::Allow(list) => Some(list),
            Self::Off | Self::On => None,
        }
    }
}

impl AllowList {
    /// # Errors
    /// Which entry is invalid, and why.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut list = Vec::new();
        for text in entries {
            let text = text.trim();
            let entry = match text.parse() {
                Ok(registry) => Entry::Registry(registry),
                Err(()) => Entry::Rule(text.parse()?),
            };
            if !list.contains(&entry) {
                list.push(entry);
            }
        }
        if list.is_empty() {
            return Err("it allows nothing: name hosts, or turn the network `off`".to_owned());
        }
        if list.len() > ENTRIES {
            return Err(format!("it has more than {ENTRIES} entries"));
        }
        Ok(Self(list))
    }

    /// The hosts.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter().filter_map(|entry| match entry {
            Entry::Rule(rule) => Some(rule),
            Entry::Registry(_) => None,
        })
    }

    /// The registries, whose hosts must be looked up.
    pub fn registries(&self) -> impl Iterator<Item = Registry> {
        self.0.iter().filter_map(|entry| match entry {
            Entry::Registry(registry) => Some(*registry),
            Entry::Rule(_) => None,
        })
    }

    fn words(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|entry| match entry {
            Entry::Registry(registry) => registry.name().to_owned(),
            Entry::Rule(rule) => rule.to_string(),
        })
    }
}

/// `a, b, c`; a long list is shortened to `and N more`.
impl fmt::Display for AllowList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 6;
        let words: Vec<String> = self.words().take(SHOWN).collect();
        f.write_str(&words.join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Registry {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pypi, Self::Cran, Self::Npm, Self::Conda];

    /// Its name in a list.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pypi => "pypi",
            Self::Cran => "cran",
            Self::Npm => "npm",
            Self::Conda => "conda",
        }
    }
}

impl FromStr for Registry {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|registry| registry.name() == text)
            .ok_or(())
    }
}

impl Rule {
    /// A rule for the host and port of a URL.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim().split_once("://")?;
        let usual = match scheme.to_ascii_lowercase().as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let host = authority.rsplit('@').next()?;
        let mut rule: Self = host.parse().ok()?;
        if matches!(rule.host, Host::Below(_)) || host.contains('=') {
            return None;
        }
        if rule.port == Some(usual) || rule.port.is_some_and(|port| WEB.contains(&port)) {
            rule.port = None;
        }
        Some(rule)
    }

    /// Adds non-public addresses that the host may resolve to.
    pub(super) fn leading_to(mut self, addresses: impl Iterator<Item = IpAddr>) -> Self {
        self.nets.extend(addresses.map(Net::of));
        self
    }

    /// Its host and one of its ports, if it names a single host.
    pub(super) fn host_and_port(&self) -> Option<(String, u16)> {
        let port = self.port.unwrap_or(443);
        match &self.host {
            Host::Name(name) => Some((name.clone(), port)),
            Host::Address(address) => Some((address.to_string(), port)),
            Host::Below(_) => None,
        }
    }

    pub(super) fn covers(&self, host: &str, port: u16) -> bool {
        let is_port = match self.port {
            Some(own) => own == port,
            None => WEB.contains(&port),
        };
        is_port && self.covers_host(host)
    }

    /// Whether it covers this host on any port.
    pub(super) fn covers_host(&self, host: &str) -> bool {
        match &self.host {
            Host::Name(name) => name == host,
            Host::Below(parent) => host
                .strip_suffix(parent.as_str())
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
            Host::Address(address) => host.parse() == Ok(*address),
        }
    }
}

impl Net {
    fn of(address: IpAddr) -> Self {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self { address, bits }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                let prefix = |it: u32| it.checked_shr(shift).unwrap_or(0);
                prefix(own.to_bits()) == prefix(other.to_bits())
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                let prefix = |it: u128| it.checked_shr(shift).unwrap_or(0);
                prefix(own.to_bits()) == prefix(other.to_bits())
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a network such as `10.0.0.0/8`");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let mut net = Self::of(address.parse().map_err(|_| wrong())?);
        if let Some(bits) = bits {
            let bits: u8 = bits.parse().map_err(|_| wrong())?;
            if bits > net.bits {
                return Err(wrong());
            }
            net.bits = bits;
        }
        Ok(net)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('=');
        let host = parts.next().unwrap_or_default();
        let nets = parts.map(str::parse).collect::<Result<_, _>>()?;
        let (host, port) = split_port(host)
            .ok_or_else(|| format!("`{text}`: invalid port; write `HOST` or `HOST:PORT`"))?;
        let host = match host.strip_prefix("*.") {
            Some(parent) => name(parent).map(Host::Below),
            None => match host.parse() {
                Ok(address) => Ok(Host::Address(address)),
                Err(_) => name(host).map(Host::Name),
            },
        };
        let host = host.map_err(|reason| format!("`{text}` is not a host: {reason}"))?;
        Ok(Self { host, port, nets })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Host::Name(name), _) => f.write_str(name)?,
            (Host::Below(parent), _) => write!(f, "*.{parent}")?,
            (Host::Address(IpAddr::V6(address)), Some(_)) => write!(f, "[{address}]")?,
            (Host::Address(address), _) => write!(f, "{address}")?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        self.nets.iter().try_for_each(|net| write!(f, "={net}"))
    }
}

/// `host` and `port` of `host:port`, `[::1]:port`, `host` and `::1`. `None` if the port is invalid.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| text.parse().ok().filter(|&port: &u16| port != 0);
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(text) => Some((address, Some(port(text)?))),
            None => rest.is_empty().then_some((address, None)),
        };
    }
    match text.split_once(':') {
        // An IPv6 address.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, text)) => Some((host, Some(port(text)?))),
        None => Some((text, None)),
    }
}

/// A name in canonical form: lower case, without the trailing dot.
///
/// # Errors
/// Why it is invalid.
pub(super) fn name(text: &str) -> Result<String, &'static str> {
    let text = text.strip_suffix('.').unwrap_or(text);
    if text.is_empty() || text.len() > LONGEST_NAME {
        return Err("it is empty or too long");
    }
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_letter)
    };
    if !text.split('.').all(is_label) {
        return Err("a name has letters, digits, `-`, `_` and dots (others as `xn--...`)");
    }
    // What resolvers accept as an address, such as `127.1` and `0x7f.1`.
    let last = text.rsplit('.').next().unwrap_or_default();
    if last.starts_with(|first: char| first.is_ascii_digit())
        && (last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x"))
    {
        return Err("an address is written in full");
    }
    Ok(text.to_ascii_lowercase())
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            _ => match text.strip_prefix("allow:") {
                Some(list) => AllowList::parse(list.split(',')).map(Self::Allow),
                None => Err("it has to be `off`, `on` or `allow:HOST,..`".to_owned()),
            },
        }
    }
}

/// In the syntax of the command-line flag.
impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::On => f.write_str("on"),
            Self::Allow(list) => {
                let words: Vec<String> = list.words().collect();
                write!(f, "allow:{}", words.join(","))
            }
        }
    }
}

const ALLOW: &str = "allow";

/// `off`, `on`, or a map with the list of `allow`.
impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::On => serializer.serialize_str("on"),
            Self::Allow(list) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(ALLOW, &list.words().collect::<Vec<_>>())?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl<'de> Visitor<'de> for Written {
            type Value = Network;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`off`, `on`, or `{ allow = [HOST, ..] }`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Network, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Network, A::Error> {
                let mut list = None;
                while let Some(key) = map.next_key::<String>()? {
                    if key != ALLOW {
                        return Err(de::Error::unknown_field(&key, &[ALLOW]));
                    }
                    let entries: Vec<String> = map.next_value()?;
                    let entries = AllowList::parse(entries.iter().map(String::as_str));
                    list = Some(entries.map_err(de::Error::custom)?);
                }
                list.map(Network::Allow)
                    .ok_or_else(|| de::Error::missing_field(ALLOW))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_written_and_read() {
        let list = "allow:pypi,Example.org.,*.example.org,example.org:8443,192.0.2.7:5432,::1,[::1]:80,db.corp=10.2.0.0/16=fd00::/8";
        let words = [
            "pypi",
            "example.org",
            "*.example.org",
            "example.org:8443",
            "192.0.2.7:5432",
            "::1",
            "[::1]:80",
            "db.corp=10.2.0.0/16=fd00::/8",
        ];
        let network = allow(list);
        let json = serde_json::to_value(&network).unwrap();
        assert_eq!(json, serde_json::json!({"allow": words}));
        assert_eq!(serde_json::from_value::<Network>(json).unwrap(), network);
        assert_eq!(allow(&network.to_string()), network);
        for (network, json) in [(Network::Off, "\"off\""), (Network::On, "\"on\"")] {
            assert_eq!(serde_json::to_string(&network).unwrap(), json);
            assert_eq!(serde_json::from_str::<Network>(json).unwrap(), network);
        }
        assert_eq!(
            network.allowed().unwrap().to_string(),
            "pypi, example.org, *.example.org, example.org:8443, 192.0.2.7:5432, ::1 and 2 more"
        );
    }

    #[test]
    fn what_is_no_list_is_refused_with_a_reason() {
        for (text, reason) in [
            ("some", "it has to be `off`, `on` or `allow:HOST,..`"),
            ("allow:", "`` is not a host: it is empty or too long"),
            ("allow:*", "a name has letters"),
            ("allow:a.*.org", "a name has letters"),
            ("allow:https://example.org", "invalid port"),
            ("allow:example.org/x", "a name has letters"),
            ("allow:example.org:0", "invalid port"),
            ("allow:example.org:65536", "invalid port"),
            ("allow:127.1", "an address is written in full"),
            ("allow:0x7f.0x1", "an address is written in full"),
            ("allow:*.1", "an address is written in full"),
            ("allow:a=10.0.0.0/33", "is not a network"),
            ("allow:a=corp", "is not a network"),
            ("allow:münchen.de", "xn--"),
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
        for json in ["true", "{}", "{\"allow\": []}", "{\"deny\": [\"x\"]}"] {
            assert!(serde_json::from_str::<Network>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_rule_covers_its_host_and_ports() {
        for (rule, host, port, covers) in [
            ("example.org", "example.org", 443, true),
            ("example.org", "example.org", 80, true),
            ("example.org", "example.org", 22, false),
            ("example.org:22", "example.org", 22, true),
            ("example.org:22", "example.org", 443, false),
            ("example.org", "www.example.org", 443, false),
            ("*.example.org", "www.example.org", 443, true),
            ("*.example.org", "a.b.example.org", 443, true),
            ("*.example.org", "example.org", 443, false),
            ("*.example.org", ".example.org", 443, false),
            ("*.example.org", "evilexample.org", 443, false),
            ("192.0.2.7", "192.0.2.7", 443, true),
            ("192.0.2.7", "192.0.2.8", 443, false),
            ("::1", "0:0:0:0:0:0:0:1", 443, true),
        ] {
            let found = rule.parse::<Rule>().unwrap().covers(host, port);
            assert_eq!(found, covers, "{rule} {host}:{port}");
        }
    }

    #[test]
    fn networks_contain_their_addresses() {
        for (net, address, contains) in [
            ("10.2.0.0/16", "10.2.255.1", true),
            ("10.2.0.0/16", "10.3.0.1", false),
            ("10.2.0.1", "10.2.0.1", true),
            ("10.2.0.1", "10.2.0.2", false),
            ("0.0.0.0/0", "10.2.0.2", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "fe80::1", true),
        ] {
            let net: Net = net.parse().unwrap();
            assert_eq!(
                net.contains(address.parse().unwrap()),
                contains,
                "{net} {address}"
            );
        }
    }

    #[test]
    fn the_host_of_a_url_is_a_rule() {
        for (url, rule) in [
            (
                "https://user:pw@index.example.org/simple/",
                Some("index.example.org"),
            ),
            (
                "http://index.example.org:8081/x",
                Some("index.example.org:8081"),
            ),
            ("https://example.org:443", Some("example.org")),
            ("http://[::1]:3141/", Some("[::1]:3141")),
            ("file:///opt/wheels", None),
            ("https://*.example.org/", None),
            ("https://a=10.0.0.0/8", None),
            ("@CRAN@", None),
            ("", None),
        ] {
            let found = Rule::of_url(url).map(|rule| rule.to_string());
            assert_eq!(found.as_deref(), rule, "{url}");
        }
    }

    #[test]
    fn only_what_allows_no_more_is_within() {
        let (a, ab) = (allow("allow:a.org"), allow("allow:b.org,a.org"));
        assert!(Network::Off.is_within(&a) && a.is_within(&ab) && ab.is_within(&Network::On));
        assert!(!ab.is_within(&a) && !a.is_within(&Network::Off) && !Network::On.is_within(&ab));
    }
}
