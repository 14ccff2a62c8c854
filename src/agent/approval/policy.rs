//! Decides whether a cell runs: first by rules, then by the policy, including remembered decisions.
//!
//! Each finding is ruled separately: by any rule that forbids it, else by the first rule that matches it, else by the
//! policy. The strictest ruling applies to the cell.

use std::path::{Path, PathBuf};

use super::rules::Subject;
use super::{Action, Analysis, Approval, Rule, RuledBy, Ruling, Site};
use crate::kernel::{Extent, Level, Network};
use crate::risk::{Finding, FindingKind, Mention, Where};
use crate::session::journal::Permit;

/// Maximum number of remembered permits per session.
const MOST_REMEMBERED: usize = 200;

/// Where code runs, and its confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// The working directory.
    pub cwd: PathBuf,
    /// The person's home directory.
    pub home: Option<PathBuf>,
    /// The kernel's confinement.
    pub extent: Extent,
}

/// Decides when code runs and when a person is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// When to ask if no rule matches.
    pub approval: Approval,
    rules: Vec<Rule>,
    ground: Ground,
    remembered: Vec<Permit>,
    /// Code that a person forbade for this session.
    refused: Vec<Permit>,
}

impl Policy {
    /// A policy with the `rules` of the configuration.
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

    /// Allows code of this kind from now on; returns whether that is new.
    pub fn remember(&mut self, permit: Permit) -> bool {
        let is_new = !self.remembered.contains(&permit) && self.remembered.len() < MOST_REMEMBERED;
        if is_new {
            self.remembered.push(permit);
        }
        is_new
    }

    /// Allows code like this without asking again. Returns the new permits; from then on the policy asks only about
    /// risk.
    pub fn always(&mut self, analysis: &Analysis, language: &str) -> Vec<Permit> {
        let ruling = self.rule(analysis, language);
        if matches!(ruling.by, RuledBy::Rule { .. }) {
            // A rule that asks applies every time.
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

    /// Forbids everything found in this code for the rest of the session.
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

    /// The ruling for a cell in `language`.
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

    /// The ruling by the first rule about whole cells, else by the policy.
    fn rule_cell(&self, language: &str) -> Ruling {
        let rule = self.decisive(|rule| rule.is_general() && rule.fits_language(language));
        if let Some((at, rule)) = rule {
            return self.by_rule(at, rule, vec![]);
        }
        let (action, reason) = match self.approval {
            Approval::Always => (Action::Ask, "every cell is asked about"),
            Approval::OnRisk => (Action::Allow, "nothing in it needs approval"),
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
            // The reason is given once, with all findings attached.
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

    /// Mentions are subject to rules only, not to the policy.
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
        // Allowing code to name a path does not allow it to do something with the path.
        (rule.action != Action::Allow).then(|| self.by_rule(at, rule, vec![finding]))
    }

    fn first_rule(&self, subject: &Subject<'_>, language: &str) -> Option<(usize, &Rule)> {
        self.decisive(|rule| rule.fits_language(language) && rule.fits(subject))
    }

    /// The deciding rule: any that forbids, else the first that matches.
    fn decisive(&self, fits: impl Fn(&Rule) -> bool) -> Option<(usize, &Rule)> {
        let all = || self.rules.iter().enumerate().filter(|(_, rule)| fits(rule));
        let forbids = all().find(|(_, rule)| rule.action == Action::Forbid);
        forbids.or_else(|| all().next())
    }

    fn by_rule(&self, at: usize, rule: &Rule, findings: Vec<Finding>) -> Ruling {
        // Under the policy `never` nobody is asked, so a rule that would ask allows.
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

    /// Whether the sandbox prevents it, or keeps it away from the person's files.
    fn is_contained(&self, finding: &Finding) -> bool {
        let extent = &self.ground.extent;
        let writes = match extent.level {
            Level::Full => return false,
            Level::Workspace => true,
            Level::ReadOnly => false,
        };
        // With an allow-list of hosts, data can still leave through them.
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
            // Files in the workspace can be read, and printed output goes to the model.
            FindingKind::Credentials => !is_own,
            // Changes to a writable database, or by a tool elsewhere, cannot be undone.
            FindingKind::Database | FindingKind::Tool => false,
            FindingKind::Obfuscation | FindingKind::Unparseable | FindingKind::Unanalysed => {
                !writes && !network
            }
        }
    }

    /// A path in the forms that patterns use: absolute, and relative to the directories that patterns start from.
    fn forms(&self, path: Option<&str>) -> Vec<String> {
        let Some(path) = path else { return Vec::new() };
        let site = self.site(&|_| false);
        let mut forms = Vec::new();
        // Never the path as written: `out/../x` is not in `out`.
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

    /// The context for analysing code.
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

/// The strictest of `rulings`, with the findings of all equally strict ones.
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
        // A rule is more specific than the policy.
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
