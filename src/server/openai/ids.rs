//! Generates ids.

/// The random part of an id.
pub(super) fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
