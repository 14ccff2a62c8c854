//! Whether a cell runs: rules first, then the policy, with what a person said to remember.
//!
//! Each finding is ruled by itself: by a rule that forbids it, else by the first rule that fits it, else by the policy. The
//! strictest ruling is the cell's.

use std::path::{Path, PathBuf};

use super::rules::Subject;
use super::{Action, Analysis, Approval, Rule, RuledBy, Ruling, Site};
use crate::kernel::{Extent, Level, Network};
use crate::risk::{Finding, FindingKind, Mention, Where};
use crate::session::journal::Permit;

/// Kinds of code that a person can let run in one session.
const MOST_REMEMBERED: usize = 200;

/// Where code runs and what holds it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The working directory.
    pub cwd: PathBuf,
    /// The person's home directory.
    pub home: Option<PathBuf>,
    /// What code may do there.
    pub extent: Extent,
}

/// When code runs, and when a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// When to ask, where no rule says.
    pub approval: Approval,
    rules: Vec<Rule>,
    ground: Ground,
    remembered: Vec<Permit>,
    /// What a person never wants to run in this session.
    refused: Vec<Permit>,
}

impl Policy {
    /// With the `rules` of the configuration.
    pub fn new(approval: Approval, rules: Vec<Rule>, ground: Ground) -> Self {
        Self {
            approval,
            rules,
            ground,
            remembered: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Where code runs.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// From now on such code runs; returns whether that is new.
    pub fn remember(&mut self, permit: Permit) -> bool {
        let is_new = !self.remembered.contains(&permit) && self.remembered.len() < MOST_REMEMBERED;
        if is_new {
            self.remembered.push(permit);
        }
        is_new
    }

    /// A person wants no more questions about code like this. Returns what is new to remember; from then on only risk is
    /// asked about.
    pub fn always(&mut self, analysis: &Analysis, language: &str) -> Vec<Permit> {
        let ruling = self.rule(analysis, language);
        if matches!(ruling.by, RuledBy::Rule { .. }) {
            // It asks each time.
            return Vec::new();
        }
        if self.approval == Approval::Always {
            self.approval = Approval::OnRisk;
        }
        let kinds = ruling.findings.into_iter().map(|finding| finding.kind);
        let permits = kinds.map(|kind| Permit {
            finding: kind.name().to_owned(),
            language: language.to_owned(),
        });
        permits
            .filter(|permit| self.remember(permit.clone()))
            .collect()
    }

    /// A person wants no more code like this. What is found in it is forbidden for the rest of the session.
    pub fn never(&mut self, analysis: &Analysis, language: &str) {
        for finding in self.rule(analysis, language).findings {
            let refused = Permit {
                finding: finding.kind.name().to_owned(),
                language: language.to_owned(),
            };
            if !self.refused.contains(&refused) && self.refused.len() < MOST_REMEMBERED {
                self.refused.push(refused);
            }
        }
    }

    /// What happens with a cell in `language`.
    pub fn rule(&self, analysis: &Analysis, language: &str) -> Ruling {
        let mut rulings: Vec<Ruling> = Vec::new();
        for finding in &analysis.findings {
            rulings.push(self.rule_finding(finding, language));
        }
        for mention in &analysis.commands {
            rulings.extend(self.rule_mention(mention, language, true));
        }
        if self.rules.iter().any(|rule| rule.path.is_some()) {
            for mention in &analysis.paths {
                rulings.extend(self.rule_mention(mention, language, false));
            }
        }
        rulings.push(self.rule_cell(language));
        strictest(rulings)
    }

    /// The first rule about cells as a whole, else the policy.
    fn rule_cell(&self, language: &str) -> Ruling {
        let rule = self.decisive(|rule| rule.is_general() && rule.fits_language(language));
        if let Some((at, rule)) = rule {
            return self.by_rule(at, rule, vec![]);
        }
        let (action, reason) = match self.approval {
            Approval::Always => (Action::Ask, "every cell is asked about"),
            Approval::OnRisk => (Action::Allow, "nothing in it needs a person's word"),
            Approval::Never => (Action::Allow, "nobody is asked"),
        };
        self.by_policy(action, reason, vec![])
    }

    fn rule_finding(&self, finding: &Finding, language: &str) -> Ruling {
        let paths = self.forms(finding.path.as_deref());
        let subject = Subject {
            finding: Some(finding.kind),
            paths: &paths,
            command: finding.command.as_deref(),
        };
        let found = || vec![finding.clone()];
        if is_among(&self.refused, finding.kind, language) {
            return Ruling {
                action: Action::Forbid,
                by: RuledBy::Remembered,
                reason: format!("a person lets no code run that {}", finding.kind.words()),
                findings: found(),
            };
        }
        if let Some((at, rule)) = self.first_rule(&subject, language) {
            return self.by_rule(at, rule, found());
        }
        match self.approval {
            // Why it is asked about is said once; what was found is shown with it.
            Approval::Always => self.by_policy(Action::Ask, "every cell is asked about", found()),
            Approval::Never => self.by_policy(Action::Allow, "nobody is asked", found()),
            Approval::OnRisk if self.is_contained(finding) => {
                self.by_policy(Action::Allow, "the sandbox stops it", found())
            }
            Approval::OnRisk if is_among(&self.remembered, finding.kind, language) => Ruling {
                action: Action::Allow,
                by: RuledBy::Remembered,
                reason: format!("a person lets code run that {}", finding.kind.words()),
                findings: found(),
            },
            Approval::OnRisk => {
                self.by_policy(Action::Ask, &format!("it {}", finding.reason), found())
            }
        }
    }

    /// Only rules are about what is merely named.
    fn rule_mention(&self, mention: &Mention, language: &str, is_command: bool) -> Option<Ruling> {
        let paths = if is_command {
            Vec::new()
        } else {
            self.forms(Some(&mention.name))
        };
        let subject = Subject {
            finding: None,
            paths: &paths,
            command: is_command.then_some(mention.name.as_str()),
        };
        let (at, rule) = self.decisive(|rule| {
            !rule.is_general() && rule.fits_language(language) && rule.fits(&subject)
        })?;
        let verb = if is_command { "runs" } else { "names" };
        let finding = Finding {
            kind: if is_command {
                FindingKind::Shell
            } else {
                FindingKind::WriteOutside
            },
            line: mention.line,
            column: mention.column,
            text: mention.text.clone(),
            reason: format!("{verb} `{}`", mention.name),
            path: (!is_command).then(|| mention.name.clone()),
            place: None,
            command: is_command.then(|| mention.name.clone()),
        };
        // Being allowed to name a path is no leave to do something with it.
        (rule.action != Action::Allow).then(|| self.by_rule(at, rule, vec![finding]))
    }

    fn first_rule(&self, subject: &Subject<'_>, language: &str) -> Option<(usize, &Rule)> {
        self.decisive(|rule| rule.fits_language(language) && rule.fits(subject))
    }

    /// The rule that decides: one that forbids, wherever it stands, else the first that fits.
    fn decisive(&self, fits: impl Fn(&Rule) -> bool) -> Option<(usize, &Rule)> {
        let all = || self.rules.iter().enumerate().filter(|(_, rule)| fits(rule));
        let forbids = all().find(|(_, rule)| rule.action == Action::Forbid);
        forbids.or_else(|| all().next())
    }

    fn by_rule(&self, at: usize, rule: &Rule, findings: Vec<Finding>) -> Ruling {
        // Who says that nobody is to be asked has answered.
        let action = match (rule.action, self.approval) {
            (Action::Ask, Approval::Never) => Action::Allow,
            (action, _) => action,
        };
        let number = at + 1;
        Ruling {
            action,
            by: RuledBy::Rule {
                number,
                rule: rule.to_string(),
            },
            reason: format!("rule {number} of the configuration: {rule}"),
            findings,
        }
    }

    fn by_policy(&self, action: Action, reason: &str, findings: Vec<Finding>) -> Ruling {
        Ruling {
            action,
            by: RuledBy::Policy {
                approval: self.approval,
            },
            reason: reason.to_owned(),
            findings,
        }
    }

    /// Whether the sandbox stops it, or keeps it from what is the person's.
    fn is_contained(&self, finding: &Finding) -> bool {
        let extent = &self.ground.extent;
        let writes = match extent.level {
            Level::Full => return false,
            Level::Workspace => true,
            Level::ReadOnly => false,
        };
        // Where some names are allowed data can go there.
        let network = extent.network != Network::Off;
        let is_own = matches!(
            finding.place,
            None | Some(Where::Workspace | Where::Unknown)
        );
        match finding.kind {
            FindingKind::Delete | FindingKind::Overwrite => !(writes && is_own),
            FindingKind::WriteOutside | FindingKind::Shell | FindingKind::ProcessControl => true,
            FindingKind::Network => !network,
            FindingKind::Install => !writes && !network,
            // What lies in the workspace can be read, and what is printed goes to the model.
            FindingKind::Credentials => !is_own,
            // Of a database that code may change nothing is taken back, nor of what a tool does elsewhere.
            FindingKind::Database | FindingKind::Tool => false,
            FindingKind::Obfuscation | FindingKind::Unparseable | FindingKind::Unanalysed => {
                !writes && !network
            }
        }
    }

    /// A path as patterns have it: absolute, and relative to the directories that they begin in.
    fn forms(&self, path: Option<&str>) -> Vec<String> {
        let Some(path) = path else { return Vec::new() };
        let site = self.site(&|_| false);
        let mut forms = Vec::new();
        // Never as the code says: `out/../x` is not in `out`.
        if let Some(absolute) = site.absolute(path) {
            let relative = |dir: &Path| absolute.strip_prefix(dir).ok().map(Path::to_owned);
            if let Some(inside) = relative(&self.ground.cwd) {
                forms.push(inside.display().to_string());
            }
            if let Some(inside) = self.ground.home.as_deref().and_then(relative) {
                forms.push(format!("~/{}", inside.display()));
            }
            forms.push(absolute.display().to_string());
        }
        forms
    }

    /// Where code is analysed.
    pub fn site<'a>(&'a self, is_old: &'a dyn Fn(&Path) -> bool) -> Site<'a> {
        Site {
            cwd: &self.ground.cwd,
            writable: &self.ground.extent.add_dirs,
            home: self.ground.home.as_deref(),
            is_old,
        }
    }
}

fn is_among(permits: &[Permit], kind: FindingKind, language: &str) -> bool {
    let mut all = permits.iter();
    all.any(|permit| permit.finding == kind.name() && permit.language == language)
}

/// The strictest of `rulings`, with the findings of all that are as strict.
fn strictest(rulings: Vec<Ruling>) -> Ruling {
    let action = rulings.iter().map(|ruling| ruling.action).max();
    let mut strict = rulings
        .into_iter()
        .filter(|ruling| Some(ruling.action) == action);
    let mut all = strict.next().unwrap_or(Ruling {
        action: Action::Ask,
        by: RuledBy::Policy {
            approval: Approval::Always,
        },
        reason: String::new(),
        findings: Vec::new(),
    });
    for ruling in strict {
        // A rule says more than the policy.
        if matches!(ruling.by, RuledBy::Rule { .. }) && !matches!(all.by, RuledBy::Rule { .. }) {
            all.by = ruling.by;
            all.reason = ruling.reason;
        } else if action == Some(Action::Ask)
            && !matches!(all.by, RuledBy::Rule { .. })
            && !all.reason.contains(&ruling.reason)
            && !ruling.findings.is_empty()
        {
            all.reason = format!("{}, {}", all.reason, ruling.reason);
        }
        all.findings.extend(ruling.findings);
    }
    all.findings.dedup();
    all
}

#[cfg(test)]
mod tests;
