// A session as items of its stream make it (docs/events.md, "The stream"). Pure: no network, no page, no clock.
//
// A snapshot begins it, edits change its cells, events change what is no transcript. Items that are already part of it
// are left out, so that nothing is doubled however often a connection breaks. Where this does less than the server's own
// transcript (outputs that are cut to their limits, a notebook that others changed), `stale` asks for a new snapshot.

/** Characters of one text that a page keeps while it runs; the server cuts to its own limit at the end. */
const MOST_TEXT = 1 << 20;
const HEAD_TEXT = 256 << 10;

export function newSession() {
  return {
    epoch: null, sequence: 0, revision: 0, stale: false,
    cells: [], index: new Map(), kernel: null, others: [], models: [], spent: null, turns: {},
    model: null, kernels: [], notebook: "", instructions: [], approval: "always", turn: "idle", lastTurn: null,
    writing: new Map(), pending: [],
    // Told as it happens, and in no snapshot.
    speaking: new Map(), reasoning: "", kernelStates: {}, notices: [], checkpoints: null, undoAsks: null, followUps: [], last: null,
  };
}

export const lastId = (session) => session.epoch === null ? null : `${session.epoch}-${session.sequence}`;

/** Applies one item; whether it changed anything. */
export function apply(session, item) {
  if (item.type === "snapshot") return take(session, item.snapshot);
  const [epoch, sequence] = item.id.split("-").map(Number);
  if (epoch !== session.epoch || sequence <= session.sequence) return false;
  session.sequence = sequence;
  if (item.type === "edit") {
    session.revision = item.revision;
    edit(session, item.edit, item.by);
  } else if (item.type === "event") {
    event(session, item);
  }
  return true;
}

function take(session, snapshot) {
  const [epoch, sequence] = snapshot.at.split("-").map(Number);
  if (epoch === session.epoch && sequence < session.sequence) return false;
  const { kernelStates, notices, checkpoints, undoAsks, followUps } = session;
  const isSame = epoch === session.epoch;
  Object.assign(session, newSession(), { epoch, sequence, revision: snapshot.revision });
  if (isSame) Object.assign(session, { kernelStates, notices, checkpoints, undoAsks, followUps });
  for (const each of snapshot.transcript) edit(session, each, null);
  session.stale = false;
  const state = snapshot.state;
  session.model = state.model;
  session.kernels = state.kernels;
  session.notebook = state.notebook;
  session.instructions = state.instructions;
  session.approval = state.approval;
  session.turn = state.turn;
  session.lastTurn = state.last_turn ?? null;
  session.writing = new Map(state.writing.map(({ cell, code }) => [cell, code]));
  session.pending = state.pending;
  session.last = null;
  return true;
}

// ---- cells

function add(session, cell) {
  if (session.index.has(cell.id)) return;
  session.index.set(cell.id, session.cells.length);
  session.cells.push(cell);
}

/** The cell, made anew so that whoever compares sees that it changed. */
function touch(session, id) {
  const at = session.index.get(id);
  if (at === undefined) return null;
  return (session.cells[at] = { ...session.cells[at] });
}

const tag = (value) => typeof value === "string" ? [value, null] : Object.entries(value)[0];

function code(id, source, { author, language, status = "proposed", ...rest }) {
  const [who, model] = tag(author);
  const outputs = rest.outputs ?? {};
  return {
    id, kind: "code", source, author: who, step: model?.step ?? null, broken: model?.broken ?? null, language, status,
    count: rest.count ?? null, started: rest.started ?? null, finished: rest.finished ?? null,
    original: rest.original ?? null, hint: rest.hint ?? null, files: rest.files ?? null,
    outputs: (outputs.items ?? []).map(stored), clears: outputs.clear_on_next ?? false,
    cut: outputs.cut ?? null, whole: outputs.whole ?? "here",
  };
}

function stored(item) {
  const { text, rich } = item;
  if (text) return { type: "text", name: text.name, shown: text.shown, open: text.carriage_return ?? false, rev: 0 };
  return { type: "rich", output: rich.output, display: rich.display_id ?? null, rev: 0 };
}

function restore(session, { id, kind, source, carried }) {
  const [name, value] = tag(kind);
  if (name === "code") return add(session, code(id, source, value));
  const cell = { id, kind: name, source, carried: carried ?? null };
  add(session, value === null ? cell : { ...cell, step: value.step ?? null, answer: value.answer ?? null });
}

function edit(session, change, by) {
  const [name, value] = tag(change);
  switch (name) {
    case "say":
      session.turn = "sampling";
      return add(session, { id: value.cell, kind: "user", source: value.text, carried: null, by });
    case "note":
      return add(session, { id: value.cell, kind: "note", source: value.text, carried: null });
    case "append_text": {
      session.speaking.delete(value.cell);
      const cell = touch(session, value.cell);
      if (cell) cell.source += value.text;
      else add(session, { id: value.cell, kind: "assistant", source: value.text, carried: null, step: value.step, answer: null });
      return;
    }
    case "cut_off": {
      const cell = touch(session, value.cell);
      if (cell) Object.assign(cell, { kind: "cut", source: `${cell.source}\n\n*(cut off: ${value.reason}; asked again)*` });
      return;
    }
    case "propose":
      session.writing.delete(value.cell);
      if (value.author === "person") session.turn = "executing";
      return add(session, { ...code(value.cell, value.source, value), by });
    case "change": {
      const cell = touch(session, value.cell);
      if (cell && cell.source !== value.source) {
        cell.original ??= cell.source;
        cell.source = value.source;
      }
      return;
    }
    case "hint":
      return set(session, value.cell, { hint: value.text });
    case "files":
      return set(session, value.cell, { files: value.files });
    case "start":
      session.turn = "executing";
      return set(session, value.cell, { status: "running", started: value.at });
    case "number":
      return set(session, value.cell, { count: value.count });
    case "emit":
      return emit(session, value.cell, value.output);
    case "cut":
      return set(session, value.cell, { isOver: true });
    case "read":
      return add(session, {
        id: value.cell, kind: "reading", source: value.arguments, carried: null, step: value.reading.step, answer: value.reading.answer,
      });
    case "compact":
      return add(session, { id: value.cell, kind: "compaction", source: value.text, carried: null, step: null, answer: null });
    case "finish": {
      const cell = touch(session, value.cell);
      if (!cell) return;
      Object.assign(cell, { status: value.status, finished: value.at });
      session.pending = session.pending.filter((it) => it.cell !== value.cell);
      session.stale ||= cell.isOver ?? false;
      return;
    }
    case "take_back": {
      const at = session.index.get(value.cell);
      if (at === undefined) return;
      for (const gone of session.cells.splice(at)) session.index.delete(gone.id);
      return;
    }
    case "set_kernel":
      session.kernel = value;
      return;
    case "add_kernel":
      session.others = [...session.others.filter((it) => it.language !== value.language), value];
      return;
    case "set_model":
      session.model = value;
      return;
    case "models":
      session.models = value;
      return;
    case "accounts":
      session.spent = value.session;
      session.turns = value.turns;
      return;
    case "spend":
      return account(session, (spent) => {
        spent.requests += 1;
        for (const key of ["input", "cached", "written", "output"]) spent.usage[key] += value[key] ?? 0;
        if (value.cost != null) spent.usage.cost = (spent.usage.cost ?? 0) + value.cost;
      });
    case "end_turn":
      return account(session, (spent) => { spent.milliseconds += value.milliseconds; });
    case "restore":
      return restore(session, value);
    case "reload":
      session.stale = true;
  }
}

function set(session, id, values) {
  const cell = touch(session, id);
  if (cell) Object.assign(cell, values);
}

function account(session, change) {
  const copy = (spent) => ({
    requests: spent?.requests ?? 0,
    usage: { input: 0, cached: 0, written: 0, output: 0, cost: null, ...spent?.usage },
    milliseconds: spent?.milliseconds ?? 0,
  });
  change((session.spent = copy(session.spent)));
  const question = session.cells.findLast((cell) => cell.kind === "user");
  if (question) change((session.turns[question.id] = copy(session.turns[question.id])));
}

// ---- outputs (session/outputs.rs)

function emit(session, id, output) {
  const [kind, value] = tag(output);
  if (kind === "update") {
    for (const cell of session.cells) {
      const shown = cell.outputs?.filter((it) => it.display === value.display_id && it.output?.data) ?? [];
      for (const item of shown) {
        item.output = { ...item.output, data: value.data, metadata: value.metadata };
        item.rev += 1;
      }
      if (shown.length) touch(session, cell.id);
    }
    return;
  }
  const cell = touch(session, id);
  if (!cell) return;
  const clear = () => Object.assign(cell, { outputs: [], clears: false, cut: null, whole: "here" });
  if (kind === "clear") {
    if (value.wait) cell.clears = true;
    else clear();
    return;
  }
  if (cell.clears) clear();
  const rich = (made) => cell.outputs.push({ type: "rich", output: made, display: value.display_id ?? null, rev: 0 });
  switch (kind) {
    case "stream":
      return push(cell, value.name, value.text);
    case "lost":
      return push(cell, "stderr", `[sponde: ${value}]\n`);
    case "display":
      return rich({ output_type: "display_data", data: value.data, metadata: value.metadata });
    case "result":
      return rich({ output_type: "execute_result", execution_count: value.count ?? null, data: value.data, metadata: value.metadata });
    case "error":
      return rich({ output_type: "error", ename: value.ename, evalue: value.evalue, traceback: value.traceback });
  }
}

function push(cell, stream, text) {
  const name = stream === "stderr" ? "stderr" : "stdout";
  let last = cell.outputs.length > (cell.cut?.at ?? 0) ? cell.outputs.at(-1) : null;
  if (last?.type !== "text" || last.name !== name) {
    last = { type: "text", name, shown: "", open: false, rev: 0 };
    cell.outputs.push(last);
  }
  write(last, text);
  last.rev += 1;
  if (last.shown.length > MOST_TEXT) {
    // While it runs, the beginning and the end are kept.
    last.head ??= last.shown.slice(0, HEAD_TEXT);
    const tail = last.shown.slice(-MOST_TEXT / 2);
    last.gone = (last.gone ?? -HEAD_TEXT) + last.shown.length - tail.length;
    last.shown = tail;
    cell.isOver = true;
  }
}

/** As a terminal shows it: `\r` starts the line anew, `\b` takes a character back. */
export function write(line, text) {
  const lineStart = () => line.shown.lastIndexOf("\n") + 1;
  for (const part of text.split(/([\r\b])/)) {
    if (part === "") continue;
    if (line.open && part !== "\r" && !part.startsWith("\n")) line.shown = line.shown.slice(0, lineStart());
    line.open = part === "\r";
    if (part === "\b") {
      if (line.shown !== "" && !line.shown.endsWith("\n")) line.shown = [...line.shown.slice(lineStart())].slice(0, -1).reduce((a, b) => a + b, line.shown.slice(0, lineStart()));
    } else if (part !== "\r") {
      line.shown += part;
    }
  }
}

// ---- events

function event(session, it) {
  session.last = it;
  const settle = (request) => { session.pending = session.pending.filter((one) => one.request !== request); };
  const ask = (request, fields) => { session.pending = [{ request, ...fields }]; };
  const note = (kind, message) => {
    const after = session.cells.at(-1)?.id ?? null;
    session.notices = [...session.notices.slice(-49), { id: it.id, after, kind, message }];
  };
  switch (it.event) {
    case "session_started":
      session.model = it.model;
      session.kernels = it.kernels;
      session.notebook = it.notebook;
      session.instructions = it.instructions ?? [];
      return;
    case "kernel_ready":
    case "kernel_busy":
      session.kernelStates = { ...session.kernelStates, [it.kernel]: { state: it.event.slice(7) } };
      return;
    case "kernel_died":
    case "kernel_failed":
      session.kernelStates = { ...session.kernelStates, [it.kernel]: { state: it.event.slice(7), message: it.reason ?? it.message, log: it.log } };
      return note("bad", it.event === "kernel_died" ? `Kernel ${it.kernel} died (${it.reason}). Its variables are lost.` : it.message);
    case "session_resumed":
      if (it.memory === "gone") ask("restore", { code_cells: it.code_cells });
      return;
    case "cell_replayed":
      if (it.differences.length) note("info", `A cell ran again with a different result: ${it.differences.join("; ")}`);
      return;
    case "session_restored":
      settle("restore");
      return;
    case "model_changed":
      session.model = it.model;
      return;
    case "model_unchanged":
      return note("bad", `The model stays the same: ${it.message}`);
    case "compaction_started":
      session.turn = "compacting";
      return;
    case "compacted":
      return note("info", `The conversation was compacted from ${it.tokens_before} to ${it.tokens_after} tokens.`);
    case "step_started":
      session.turn = "sampling";
      session.reasoning = "";
      session.followUps = [];
      return;
    case "retrying":
      session.writing = new Map();
      session.speaking = new Map();
      return note("info", `${it.message}. Asking again (${it.attempt} of ${it.of}).`);
    case "text":
      session.speaking.set(it.cell, (session.speaking.get(it.cell) ?? "") + it.text);
      return;
    case "reasoning":
      session.reasoning = (session.reasoning + it.text).slice(-8192);
      return;
    case "code_delta":
      session.writing.set(it.cell, (session.writing.get(it.cell) ?? "") + it.text);
      return;
    case "approval_requested":
      session.turn = "deciding";
      return ask("approval", { cell: it.cell, ...(it.findings?.length ? { findings: it.findings } : {}), ...(it.reason === undefined ? {} : { reason: it.reason }) });
    case "code_forbidden":
      return note("bad", `A rule forbids this code: ${it.ruling.reason}`);
    case "approval_resolved":
      settle("approval");
      if (session.turn === "deciding") session.turn = it.decision === "decline" ? "sampling" : "executing";
      return;
    case "approval_changed":
      session.approval = it.approval;
      return;
    case "continue_requested": {
      const { id, type, event: _, ...end } = it;
      session.turn = "paused";
      return ask("continue", end);
    }
    case "continue_resolved":
      settle("continue");
      session.turn = "sampling";
      return;
    case "input_requested":
      return ask("input", { cell: it.cell, prompt: it.prompt, password: it.password });
    case "input_answered":
      return settle("input");
    case "undone": {
      session.undoAsks = null;
      session.checkpoints = null;
      session.pending = [];
      const files = it.restored.length + it.removed.length;
      const more = [files ? `${files} file${files === 1 ? "" : "s"} as before` : "", ...it.notes].filter(Boolean);
      return note("info", `Undid ${it.cells} cell${it.cells === 1 ? "" : "s"}${more.length ? `: ${more.join("; ")}` : "."}`);
    }
    case "undo_asks":
      session.undoAsks = it.inexact;
      return;
    case "undo_refused":
      return note("bad", it.message);
    case "checkpoints":
      session.checkpoints = it.checkpoints;
      return;
    case "notice":
      return note("info", it.message);
    case "follow_ups":
      session.followUps = it.questions;
      return;
    case "turn_finished": {
      const { id, type, ...told } = it;
      Object.assign(session, { turn: "idle", lastTurn: told, pending: [], writing: new Map(), speaking: new Map() });
      const says = {
        interrupted: "Stopped.", step_limit: `Stopped after ${it.steps} steps.`, declined: "Declined.", budget: it.message, planned: "The plan is not carried out.",
        repeating: "Stopped: the same code failed three times in the same way.",
        model_failed: it.key_variable ? `${it.message}. Set ${it.key_variable} to a valid key and start the server again.` : it.message,
        kernel_failed: it.message,
      }[it.end];
      if (says) note(/failed|budget/.test(it.end) ? "bad" : "info", says);
    }
  }
}

/** What two sessions must agree on, however they came to it. */
export function truth(session) {
  const cells = session.cells.map(({ by, isOver, ...cell }) => ({
    ...cell, outputs: cell.outputs?.map(({ rev, head, gone, ...output }) => output),
  }));
  const { kernel, others, spent, turns, model, kernels, notebook, approval, turn, pending } = session;
  return { cells, kernel, others, spent, turns, model, kernels, notebook, approval, turn, pending, writing: [...session.writing] };
}
