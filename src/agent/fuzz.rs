//! Fuzzes a call's arguments: the code shown while it streams is the beginning of the code that runs.

use super::tools::{RUN_CODE, parse, partial};

/// The bytes are the arguments.
pub(crate) fn arguments(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let whole = parse(RUN_CODE, &text, &[]);
    // Checking every prefix takes quadratic time.
    let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
    let step = 1 + text.len() / 256;
    let mut seen = String::new();
    for end in ends.step_by(step).chain([text.len()]) {
        let partial = partial(text.get(..end).unwrap_or_default()).code;
        assert!(partial.len() <= end);
        assert!(partial.starts_with(&seen), "{seen:?}, then {partial:?}");
        seen = partial;
    }
    if let Ok(whole) = whole {
        assert!(
            whole.code.starts_with(&seen),
            "{seen:?} was shown of {:?}",
            whole.code
        );
    }
}
