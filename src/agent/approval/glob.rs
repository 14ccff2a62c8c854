//! Patterns for paths and names: `*` matches anything but a slash, `**` anything, `?` one character.

/// Whether `text` matches `pattern`. The number of steps is at most the product of their lengths.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // Prefixes of the text that match the pattern read so far.
    let mut fits = vec![false; text.len() + 1];
    if let Some(first) = fits.first_mut() {
        *first = true;
    }
    let mut at = 0;
    while let Some(&c) = pattern.get(at) {
        let is_deep = c == '*' && pattern.get(at + 1) == Some(&'*');
        // `a/**/b` also matches `a/b`.
        let skips_slash = is_deep && pattern.get(at + 2) == Some(&'/');
        let mut next = vec![false; fits.len()];
        if c == '*' {
            let mut open = false;
            for (end, fit) in fits.iter().enumerate() {
                open |= *fit;
                let is_here =
                    open && (!skips_slash || *fit || end > 0 && text.get(end - 1) == Some(&'/'));
                if let Some(next) = next.get_mut(end) {
                    *next = is_here;
                }
                if !is_deep && text.get(end) == Some(&'/') {
                    open = false;
                }
            }
        } else {
            for (end, fit) in fits.iter().enumerate() {
                let is_one = text
                    .get(end)
                    .is_some_and(|have| *have == c || c == '?' && *have != '/');
                if let Some(next) = next.get_mut(end + 1) {
                    *next = *fit && is_one;
                }
            }
        }
        fits = next;
        at += if skips_slash {
            3
        } else {
            1 + usize::from(is_deep)
        };
    }
    fits.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_fit_whole_paths() {
        for (pattern, text, fits) in [
            ("out/*", "out/a.csv", true),
            ("out/*", "out/a/b.csv", false),
            ("out/**", "out/a/b.csv", true),
            ("**/b.csv", "b.csv", true),
            ("**/b.csv", "out/a/b.csv", true),
            ("**/b.csv", "out/ab.csv", false),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("*.cs?", "a.csv", true),
            ("*.cs?", "a.cs", false),
            ("**", "", true),
            ("", "a", false),
            ("é*", "éa", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn no_pattern_takes_long() {
        let pattern = "*a".repeat(500);
        assert!(!matches(&pattern, &"b".repeat(5000)));
    }
}
