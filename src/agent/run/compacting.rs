//! Keeps the conversation within the model's context window. Before each request, the text of new results is fixed; if
//! the prompt would leave too little room for the reply, old cells are compacted first ([`compaction`]).
//!
//! Invariants: a compaction is one edit, made only while no code runs and the model is not replying. It never fails:
//! if the model cannot summarise, rules do. The request for a summary only goes to the session's own model.

mod asking;

use std::fmt::Write as _;
use std::pin::Pin;

use asking::inventories;

use super::{Coaching, Edit, EventKind, Input, Prompt, Session, random_cell_id, tools};
use crate::agent::event::{CompactionReason, OutputChange};
use crate::kernel::OutputEvent;
use crate::llm::tokens::{self, Meter};
use crate::llm::types::{Message, Part, Usage};
use crate::session::compaction::{
    self, Compaction, CompactionKind, Inventory, Measure, Need, Parts, Plan, Scale, SentResults,
    Writer,
};
use crate::session::summarize::{self, Budget, head_and_tail};
use crate::session::{Cell, context};

/// Maximum compactions before one request.
const TRIES: u32 = 3;
/// Maximum late outputs that wait to be sent; their maximum bytes follow.
const LATE: usize = 32;
const LATE_BYTES: usize = 4 << 10;
/// Follows the last late output that is sent, if there were more.
const MORE_LATE: &str = "\n[more late output is in the notebook]";

/// What is known about the available room.
#[derive(Default)]
pub(super) struct ContextBudget {
    /// The estimated token count per weight for the model.
    meter: Meter,
    /// The model of the meter, and the window size that it named when it rejected a prompt.
    model: String,
    learned: Option<u64>,
    /// The results that were sent to it.
    pub(super) said: SentResults,
    /// The weight of the prompt in the current request.
    asked: u64,
    /// It has rejected a prompt as too long since its last reply.
    refused: bool,
    /// Compactions since its last reply.
    tried: u32,
    /// Late texts of cells whose results were already sent: the cell's number, and the text.
    late: Vec<(Option<i64>, String)>,
    work: Option<Compacting>,
}

/// A pending compaction.
struct Compacting {
    draft: Pin<Box<dyn Future<Output = Draft> + Send>>,
    plan: Plan,
    then: Then,
}

/// The step after a compaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Ask the model.
    Ask,
    /// Nothing.
    Rest,
}

/// Contributions of kernels and model to a compaction.
pub(super) struct Draft {
    inventories: Vec<Inventory>,
    /// The model's summary of the work.
    work: Option<String>,
    /// Why there is no summary although the model was asked.
    trouble: Option<String>,
    /// The usage of the request, if it was asked.
    usage: Option<Usage>,
}

/// The end of the pending compaction.
pub(super) async fn next_draft(room: &mut ContextBudget) -> Draft {
    match &mut room.work {
        Some(work) => work.draft.as_mut().await,
        None => std::future::pending().await,
    }
}

impl ContextBudget {
    /// Cancels the pending compaction.
    pub(super) fn cancel(&mut self) {
        self.work = None;
    }

    /// A person asked something: earlier failures are retried.
    pub(super) fn turn_begins(&mut self) {
        self.refused = false;
        self.tried = 0;
    }

    /// The number of the model's tokens for this weight.
    pub(super) fn tokens(&self, weight: u64) -> u64 {
        self.meter.tokens(weight)
    }

    /// The model gets this prompt.
    pub(super) fn asking(&mut self, prompt: &Prompt) {
        self.asked = tokens::weigh(prompt);
    }

    /// The model has replied and reports how much it read.
    pub(super) fn replied(&mut self, usage: Usage) {
        self.meter.observe(self.asked, usage.input);
        self.refused = false;
        self.tried = 0;
    }

    /// Another model counts differently.
    fn meet(&mut self, model: &str) {
        if self.model != model {
            model.clone_into(&mut self.model);
            self.meter = Meter::default();
            self.learned = None;
            self.said.clear();
        }
    }
}

impl Session {
    /// How much output the model gets.
    pub(super) fn model_budget(&self) -> Budget<'_> {
        Budget {
            text: self.text_budget(),
            preparer: self.asking.image_preparer.as_deref(),
            brief: self.options.coaching == Coaching::Small,
            reads: self.reads(),
            said: Some(&self.asking.budget.said),
        }
    }

    /// Maximum bytes of one cell's text for the model: a single result must not fill a small window.
    pub(super) fn text_budget(&self) -> usize {
        /// Minimum bytes of a token.
        const BYTES: u64 = 3;
        let quarter = usize::try_from(self.limit() / 4 * BYTES).unwrap_or(usize::MAX);
        self.options.output_budget.min(quarter)
    }

    /// Fixes the text of ended cells for the model, and ensures that the prompt fits. Returns the prompt if the model
    /// can be asked now; otherwise it is asked after the compaction that was begun.
    pub(super) fn make_room(&mut self) -> Option<Prompt> {
        self.tell_results();
        let prompt = self.prompt();
        if self.asking.budget.tried >= TRIES
            || self.asking.budget.meter.tokens(tokens::weigh(&prompt)) <= self.limit()
        {
            return Some(prompt);
        }
        let need = if self.asking.budget.tried == 0 {
            Need::Space
        } else {
            Need::Summary
        };
        let Some(plan) = self.plan(&prompt, need) else {
            return Some(prompt);
        };
        self.asking.budget.tried += 1;
        self.begin(plan, prompt, Then::Ask, CompactionReason::NearLimit);
        None
    }

    /// The model rejected the prompt as too long. Returns whether it will be asked again.
    pub(super) fn refused(&mut self, message: &str) -> bool {
        let again = std::mem::replace(&mut self.asking.budget.refused, true);
        if self.asking.budget.tried >= TRIES {
            return false;
        }
        let counted = self.asking.budget.meter.tokens(self.asking.budget.asked);
        let named = tokens::window_in(message);
        // The prompt has too many tokens; by how many is not known.
        let window = named.unwrap_or_else(|| {
            let most = self.window().unwrap_or(u64::MAX).min(counted);
            if again { most / 2 } else { most }
        });
        self.asking
            .budget
            .meter
            .observe(self.asking.budget.asked, window.max(counted));
        self.asking.budget.learned = Some(window);
        let prompt = self.prompt();
        let need = if again { Need::Summary } else { Need::Space };
        let Some(plan) = self.plan(&prompt, need) else {
            return false;
        };
        self.asking.budget.tried += 1;
        self.begin(plan, prompt, Then::Ask, CompactionReason::Refused);
        true
    }

    /// A person requested compaction.
    pub(super) fn compact(&mut self) -> Option<Input> {
        self.tell_results();
        let prompt = self.prompt();
        let Some(plan) = self.plan(&prompt, Need::Summary) else {
            self.notice("there is nothing to compact yet");
            return Some(Input::Compacted);
        };
        self.begin(plan, prompt, Then::Rest, CompactionReason::Requested);
        None
    }

    /// Performs the compaction, with the contributions of kernel and model.
    pub(super) async fn compacted(&mut self, mut draft: Draft) {
        let Some(Compacting { plan, then, .. }) = self.asking.budget.work.take() else {
            return;
        };
        if let Some(usage) = draft.usage {
            self.spend_aside(usage);
        }
        if let Some(trouble) = &draft.trouble {
            self.notice(&format!(
                "the model did not write a summary ({trouble}): it is put together without it"
            ));
        }
        self.cells.passwords.blot(&mut draft.inventories);
        let made = self.make(&plan, &draft);
        let Made {
            text,
            measure,
            after,
            words,
            shortened,
            files,
        } = made;
        if after < plan.before {
            let by = match &measure {
                Measure::Outputs => None,
                Measure::Summary { by, .. } => Some(by.name().to_owned()),
            };
            let compaction = Compaction {
                through: plan.through,
                measure,
                before: plan.before,
                after,
            };
            self.asking
                .budget
                .said
                .compacted(self.transcript.cells(), &compaction);
            self.edit(Edit::Compact {
                cell: random_cell_id(),
                text,
                compaction,
            });
            self.publish(EventKind::Compacted {
                tokens_before: plan.before,
                tokens_after: after,
                window: self.window(),
                summary_by: by,
                cells: plan.cells,
                pictures: plan.pictures,
                words,
                shortened,
                files,
                variables: draft.inventories.iter().map(Inventory::len).sum(),
            });
        } else if then == Then::Rest {
            self.notice("the conversation is too short to become shorter");
        }
        let next = match then {
            Then::Ask => self.sample(),
            Then::Rest => Some(Input::Compacted),
        };
        if let Some(input) = next {
            self.drive(input).await;
        }
    }

    /// Handles output that came after the end of its cell: the text that the model already got for that cell stays, so
    /// the late output is sent separately.
    pub(super) fn heard_late(&mut self, cell: &str, output: &OutputEvent) {
        let Some(code) = self.transcript.code(cell) else {
            return;
        };
        // A small model's prompt is rewritten in any case.
        if self.asking.budget.said.of(cell).is_none() || self.options.coaching == Coaching::Small {
            return;
        }
        let count = code.count;
        let OutputChange::Append { output, .. } = OutputChange::from(output.clone()) else {
            return;
        };
        let budget = Budget {
            text: LATE_BYTES,
            ..self.model_budget()
        };
        let parts = summarize::outputs(&[output], budget);
        let Some(Part::Text(text)) = parts.into_iter().next() else {
            return;
        };
        let late = &mut self.asking.budget.late;
        if let Some((_, all)) = late
            .last_mut()
            .filter(|(last, all)| *last == count && all.len() < LATE_BYTES)
        {
            let _ = write!(all, "\n{text}");
        } else if late.len() < LATE {
            late.push((count, text));
        } else if let Some((_, all)) = late.last_mut()
            && !all.ends_with(MORE_LATE)
        {
            all.push_str(MORE_LATE);
        }
    }

    /// Fixes the text of these cells for the model, whatever comes later.
    fn tell_results(&mut self) {
        let name = self.options.provider.as_ref();
        let name = name.map(|provider| provider.info().name.clone());
        self.asking.budget.meet(&name.unwrap_or_default());
        let mut said = std::mem::take(&mut self.asking.budget.said);
        let untold = context::untold(&self.transcript, &said);
        said.tell(&untold, self.model_budget());
        self.asking.budget.said = said;
        for (count, text) in std::mem::take(&mut self.asking.budget.late) {
            let cell = count.map_or_else(|| "an earlier cell".to_owned(), |n| format!("In [{n}]"));
            let text = format!("[Output of {cell} that came after it had ended]\n{text}");
            self.edit(Edit::Note {
                cell: random_cell_id(),
                text: head_and_tail(&text, LATE_BYTES),
            });
        }
    }

    /// The model's window in tokens, if it is known.
    pub(super) fn window(&self) -> Option<u64> {
        let provider = self.options.provider.as_ref();
        let known = provider.and_then(|provider| provider.info().context_window);
        self.asking.budget.learned.or(known)
    }

    /// Maximum tokens of a prompt.
    fn limit(&self) -> u64 {
        tokens::limit_of(self.window().unwrap_or(tokens::ASSUMED_WINDOW))
    }

    fn plan(&self, prompt: &Prompt, need: Need) -> Option<Plan> {
        let scale = Scale {
            weigh: &tokens::weigh_messages,
            tokens: &|weight| self.asking.budget.meter.tokens(weight),
            fixed: tokens::weigh_fixed(prompt),
        };
        compaction::plan(
            &self.transcript,
            tools::RUN_CODE,
            self.model_budget(),
            scale,
            self.limit(),
            need,
        )
    }

    fn begin(&mut self, plan: Plan, prompt: Prompt, then: Then, reason: CompactionReason) {
        self.publish(EventKind::CompactionStarted {
            tokens: plan.before,
            window: self.window(),
            reason,
        });
        let kernels = self.kernels.all_ready();
        let mut request = match plan.kind {
            CompactionKind::Outputs => None,
            CompactionKind::Summary => self.summary_request(&plan, prompt),
        };
        let dear = request.as_ref().and_then(|request| request.prompts.first());
        let trouble = dear.and_then(|prompt| self.too_dear_aside(prompt));
        if trouble.is_some() {
            request = None;
        }
        if request.is_some() {
            self.tell_asked("summary");
        }
        let draft = Box::pin(async move {
            let mut draft = Draft {
                inventories: inventories(kernels).await,
                work: None,
                trouble,
                usage: None,
            };
            if let Some(request) = request {
                request.ask(&mut draft).await;
            }
            draft
        });
        self.asking.budget.work = Some(Compacting { draft, plan, then });
    }

    /// The text of the compaction, and its weight.
    fn make(&self, plan: &Plan, draft: &Draft) -> Made {
        let limit = self.limit();
        let cells = self.cells_through(&plan.through);
        let inventory = self.inventory(&draft.inventories, as_many_bytes(limit) / 4);
        let (text, measure, words, shortened, files) = match plan.kind {
            CompactionKind::Outputs => (
                compaction::outputs_note(&inventory),
                Measure::Outputs,
                0,
                0,
                vec![],
            ),
            CompactionKind::Summary => {
                let words = compaction::person_words(cells, as_many_bytes(limit));
                let files = compaction::files_written(cells);
                let most = as_many_bytes(limit) / 3;
                let (by, work) = if let Some(work) = &draft.work {
                    (Writer::Model, head_and_tail(work, most))
                } else {
                    let all = self.transcript.cells();
                    let work = compaction::work_so_far(all, &plan.through, most);
                    (Writer::Rules, work)
                };
                let facts = self.options.facts.as_deref().unwrap_or_default();
                let text = compaction::summary(&Parts {
                    workspace: &head_and_tail(facts.trim(), most),
                    words: &words,
                    work: &work,
                    files: &files,
                    inventory: &inventory,
                });
                let whole = words.pieces - words.shortened;
                (
                    text,
                    Measure::Summary { by, work },
                    whole,
                    words.shortened,
                    files,
                )
            }
        };
        let said = Message::User(vec![Part::Text(text.clone())]);
        let fixed = tokens::weigh_fixed(&self.prompt());
        let weight = fixed + plan.kept + tokens::weigh_messages(&[said]);
        Made {
            text,
            measure,
            after: self.asking.budget.meter.tokens(weight),
            words,
            shortened,
            files: files.len(),
        }
    }

    /// The variables in the kernels, each with its kernel if there are several.
    fn inventory(&self, inventories: &[Inventory], limit: usize) -> String {
        let main = self.language();
        let mut text = String::new();
        if !inventories.iter().any(|one| one.language == main) {
            text.push_str("(none: the kernel is not running)\n");
        }
        for one in inventories {
            if one.language != main {
                let _ = writeln!(text, "In the {} kernel:", one.language);
            }
            text.push_str(&one.lines(limit / inventories.len().max(1)));
        }
        text
    }

    fn cells_through(&self, last: &str) -> &[Cell] {
        let cells = self.transcript.cells();
        let at = cells.iter().position(|cell| cell.id == last);
        at.and_then(|at| cells.get(..=at)).unwrap_or_default()
    }
}

/// The text of a compaction.
struct Made {
    text: String,
    measure: Measure,
    after: u64,
    words: usize,
    shortened: usize,
    files: usize,
}

/// As many bytes as the limit has tokens: about a third of it.
fn as_many_bytes(limit: u64) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
