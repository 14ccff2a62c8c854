//! Tickets: a signed path that allows a frame to be shown for a limited time, so that a frame needs no cookie.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::token::{hex, is_same, random};

/// How long a ticket is valid for loading its frame.
const VALID: Duration = Duration::from_mins(10);

/// Issues tickets and verifies them; those of another run are void.
pub(super) struct Tickets {
    key: String,
}

/// One output of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputPlace {
    pub(super) session: String,
    pub(super) cell: String,
    pub(super) index: usize,
}

impl Tickets {
    pub(super) fn new() -> Self {
        Self { key: random() }
    }

    /// The ticket of an output: `SESSION.EXPIRY.SIGNATURE`.
    pub(super) fn issue(&self, place: &OutputPlace) -> String {
        let expiry = now() + VALID.as_secs();
        let signature = self.sign(place, expiry);
        format!("{}.{expiry}.{signature}", place.session)
    }

    /// The output of `ticket`, if it matches the request and the ticket is valid.
    pub(super) fn check(&self, ticket: &str, cell: String, index: usize) -> Option<OutputPlace> {
        let mut parts = ticket.split('.');
        let (session, expiry, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let expiry: u64 = expiry.parse().ok()?;
        let place = OutputPlace {
            session: session.to_owned(),
            cell,
            index,
        };
        let is_good = parts.next().is_none()
            && expiry >= now()
            && is_same(signature, &self.sign(&place, expiry));
        is_good.then_some(place)
    }

    /// Whether a path is an output with a ticket of this run: `/out/TICKET/CELL/INDEX`.
    pub(super) fn knows(&self, path: &str) -> bool {
        let mut parts = path.strip_prefix("/out/").unwrap_or_default().split('/');
        let (Some(ticket), Some(cell), Some(index)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let index = index.parse();
        index.is_ok_and(|index| self.check(ticket, cell.to_owned(), index).is_some())
    }

    fn sign(&self, place: &OutputPlace, expiry: u64) -> String {
        // HMAC accepts keys of any length; if it failed, nothing would be valid.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()) else {
            return random();
        };
        let OutputPlace {
            session,
            cell,
            index,
        } = place;
        mac.update(format!("{session}\n{cell}\n{index}\n{expiry}").as_bytes());
        hex(&mac.finalize().into_bytes())
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_for_one_output_of_one_run() {
        let place = OutputPlace {
            session: "20261123-ab12".to_owned(),
            cell: "c1".to_owned(),
            index: 2,
        };
        let tickets = Tickets::new();
        let ticket = tickets.issue(&place);
        assert_eq!(
            tickets.check(&ticket, "c1".to_owned(), 2),
            Some(place.clone())
        );
        assert!(tickets.knows(&format!("/out/{ticket}/c1/2")));
        assert!(!tickets.knows(&format!("/out/{ticket}/c1/3")) && !tickets.knows("/out/x"));
        assert_eq!(tickets.check(&ticket, "c1".to_owned(), 3), None);
        assert_eq!(tickets.check(&ticket, "c2".to_owned(), 2), None);
        assert_eq!(Tickets::new().check(&ticket, "c1".to_owned(), 2), None);
        let other = ticket.replace("ab12", "zz99");
        assert_eq!(tickets.check(&other, "c1".to_owned(), 2), None);
        let expired = format!("20261123-ab12.1.{}", tickets.sign(&place, 1));
        assert_eq!(tickets.check(&expired, "c1".to_owned(), 2), None);
        for bad in ["", "..", "a.b.c", "20261123-ab12.9999999999999999999999.x"] {
            assert_eq!(tickets.check(bad, "c1".to_owned(), 2), None, "{bad}");
        }
    }
}
