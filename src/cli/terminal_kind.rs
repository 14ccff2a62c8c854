//! Detects the terminal from its environment: one table of its support for pictures, links, notifications and titles.

/// Abilities that only some terminals have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TerminalKind {
    pub(super) graphics: Graphics,
    /// File names can be links (OSC 8).
    pub(super) links: bool,
    /// It shows desktop notifications (OSC 9).
    pub(super) notifications: bool,
    /// Its window has a title (OSC 2).
    pub(super) title: bool,
}

/// How it shows pictures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Graphics {
    #[default]
    None,
    /// kitty's protocol.
    Kitty,
    /// iTerm2's protocol.
    Iterm2,
}

/// How a terminal is recognised.
#[derive(Debug, Clone, Copy)]
enum Mark {
    /// `TERM` begins with this.
    Term(&'static str),
    /// `TERM_PROGRAM` is this.
    Program(&'static str),
    /// This variable is set.
    Variable(&'static str),
    /// This variable is a number, and at least this large.
    Version(&'static str, u32),
}

/// A terminal: how it is recognised, its graphics, links, notifications.
type Known = (&'static [Mark], Graphics, bool, bool);

const KNOWN: [Known; 12] = {
    use Graphics::{Iterm2, Kitty, None};
    use Mark::{Program, Term, Variable, Version};
    [
        (
            &[Term("xterm-kitty"), Variable("KITTY_WINDOW_ID")],
            Kitty,
            true,
            true,
        ),
        (
            &[Term("xterm-ghostty"), Program("ghostty")],
            Kitty,
            true,
            true,
        ),
        (&[Program("iTerm.app")], Iterm2, true, true),
        (&[Term("wezterm"), Program("WezTerm")], Iterm2, true, true),
        (&[Program("mintty")], Iterm2, false, false),
        (&[Term("foot")], None, true, true),
        (&[Term("rio"), Program("rio")], None, true, true),
        (&[Term("alacritty")], None, true, false),
        (&[Program("vscode")], None, true, false),
        // GNOME Terminal and others that use the same library.
        (&[Version("VTE_VERSION", 5000)], None, true, false),
        (&[Variable("KONSOLE_VERSION")], None, true, false),
        // Windows Terminal.
        (&[Variable("WT_SESSION")], None, true, false),
    ]
};

/// Prefixes of `TERM` for terminals whose windows have titles. Other terminals print unknown sequences.
const TITLED: [&str; 14] = [
    "xterm",
    "screen",
    "tmux",
    "rxvt",
    "foot",
    "alacritty",
    "wezterm",
    "konsole",
    "gnome",
    "vte",
    "st-",
    "contour",
    "rio",
    "ghostty",
];

impl TerminalKind {
    /// The terminal of this process.
    pub(super) fn of_environment() -> Self {
        Self::of(&|name| std::env::var(name).ok())
    }

    /// From the variables of an environment.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let term = variable("TERM").unwrap_or_default();
        let title = TITLED.iter().any(|name| term.starts_with(name));
        // Multiplexers pass the other sequences on to no terminal.
        let is_inside = variable("TMUX").is_some() || variable("STY").is_some();
        let is = |mark: &Mark| match *mark {
            Mark::Term(begin) => term.starts_with(begin),
            Mark::Program(name) => variable("TERM_PROGRAM").as_deref() == Some(name),
            Mark::Variable(name) => variable(name).is_some(),
            Mark::Version(name, least) => {
                let version = variable(name).and_then(|it| it.parse::<u32>().ok());
                version.is_some_and(|version| version >= least)
            }
        };
        let found = KNOWN.iter().filter(|_| !is_inside);
        let found = found.filter(|(marks, ..)| marks.iter().any(is));
        let nothing = Self {
            title,
            ..Self::default()
        };
        found.fold(nothing, |kind, &(_, graphics, links, notifications)| Self {
            graphics: if kind.graphics == Graphics::None {
                graphics
            } else {
                kind.graphics
            },
            links: kind.links || links,
            notifications: kind.notifications || notifications,
            title,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_known_by_their_environment() {
        let all = |graphics| (graphics, true, true, true);
        let links = (Graphics::None, true, false, true);
        let title = (Graphics::None, false, false, true);
        let nothing = (Graphics::None, false, false, false);
        for (variables, expected) in [
            (&["TERM=xterm-kitty"][..], all(Graphics::Kitty)),
            (
                &["TERM=xterm-256color", "KITTY_WINDOW_ID=1"],
                all(Graphics::Kitty),
            ),
            (&["TERM=xterm-ghostty"], all(Graphics::Kitty)),
            (
                &["TERM=xterm-256color", "TERM_PROGRAM=iTerm.app"],
                all(Graphics::Iterm2),
            ),
            (
                &["TERM=xterm-256color", "TERM_PROGRAM=WezTerm"],
                all(Graphics::Iterm2),
            ),
            (
                &["TERM=xterm-256color", "TERM_PROGRAM=mintty"],
                (Graphics::Iterm2, false, false, true),
            ),
            (&["TERM=foot"], all(Graphics::None)),
            (&["TERM=alacritty"], links),
            (&["TERM=xterm-256color", "TERM_PROGRAM=vscode"], links),
            (&["TERM=xterm-256color", "VTE_VERSION=7600"], links),
            (&["TERM=xterm-256color", "VTE_VERSION=4000"], title),
            (&["TERM=xterm-256color", "KONSOLE_VERSION=230805"], links),
            (&["TERM=xterm-256color", "WT_SESSION=x"], links),
            (&["TERM=xterm-256color"], title),
            (
                &["TERM=tmux-256color", "TERM_PROGRAM=WezTerm", "TMUX=x"],
                title,
            ),
            (&["TERM=screen", "STY=x", "KITTY_WINDOW_ID=1"], title),
            (&["TERM=linux"], nothing),
            (&["TERM=vt220"], nothing),
            (&[], nothing),
        ] {
            let kind = TerminalKind::of(&|name| {
                let mut all = variables.iter().filter_map(|it| it.split_once('='));
                all.find(|(own, _)| *own == name)
                    .map(|(_, value)| value.to_owned())
            });
            let found = (kind.graphics, kind.links, kind.notifications, kind.title);
            assert_eq!(found, expected, "{variables:?}");
        }
    }
}
