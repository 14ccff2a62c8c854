// The conversation: what was said, code with what came of it, and the questions that wait for a person.

import { OWN, highlight, markdown } from "./api.js";
import { Outputs } from "./outputs.js";
import { Icon, Safe, Tool, attempt, html, memo, plural, size, toast, useEffect, useLayoutEffect, useRef, useState } from "./ui.js";

// ---- words

/** Up to where Markdown is whole: behind the last empty line that is in no fence. */
function wholeUpTo(text) {
  let at = 0;
  let fenced = false;
  let end = 0;
  for (const line of text.split("\n")) {
    at += line.length + 1;
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced;
    if (!fenced && line.trim() === "") end = Math.min(at, text.length);
  }
  return end;
}

export function Words({ text, isLive }) {
  const [done, setDone] = useState({ text: "", safe: null });
  const whole = isLive ? text.slice(0, wholeUpTo(text)) : text;
  useEffect(() => {
    let isOld = false;
    if (whole.trim()) markdown(whole).then((safe) => !isOld && safe !== null && setDone({ text: whole, safe }));
    return () => { isOld = true; };
  }, [whole]);
  const fits = done.safe !== null && text.startsWith(done.text);
  const tail = fits ? text.slice(done.text.length) : text;
  return html`<div class="text">
    ${fits && html`<${Safe} text=${done.safe} />`}
    ${tail.trim() && html`<div class="tail">${tail.trimStart()}</div>`}</div>`;
}

// ---- code

const NAMES = { javascript: "JavaScript", typescript: "TypeScript", sql: "SQL", r: "R" };
const nameOf = (language) => NAMES[language] ?? (language ? language[0].toUpperCase() + language.slice(1) : "Code");
const FOLD = 14;

/** Code with its colours, which come from the server once it is whole. */
const Code = memo(({ source, language, isLive }) => {
  const [safe, setSafe] = useState(null);
  useEffect(() => {
    let isOld = false;
    setSafe(null);
    if (!isLive && source) highlight({ code: source, language: language ?? "python" }).then((it) => !isOld && setSafe(it));
    return () => { isOld = true; };
  }, [source, language, isLive]);
  return html`<pre class="source" tabindex="0" role="region" aria-label="Code">${safe !== null
    ? html`<code dangerouslySetInnerHTML=${{ __html: safe }}></code>` : html`<code>${source}${isLive && html`<span class="caret"></span>`}</code>`}</pre>`;
});

function statusOf({ status, started, finished, count, broken }) {
  const [name, value] = typeof status === "string" ? [status, null] : Object.entries(status)[0];
  const time = started && finished ? (Date.parse(finished) - Date.parse(started)) / 1000 : null;
  const took = time === null ? "" : time < 10 ? `${time.toFixed(1)} s` : time < 60 ? `${Math.round(time)} s` : `${Math.floor(time / 60)} min ${Math.round(time % 60)} s`;
  if (broken != null) return { kind: "warn", words: "could not be read" };
  switch (name) {
    case "proposed": return { kind: "wait", words: "waiting" };
    case "running": return { kind: "busy", words: "running" };
    case "declined": return { kind: "warn", words: "declined", reason: value };
    case "not_run": return { kind: "warn", words: "not run", reason: value };
    default: {
      const [verdict] = typeof value === "string" ? [value] : Object.keys(value ?? {});
      const words = { ok: "", error: "error", interrupted: "stopped", timed_out: "timed out", aborted: "not run", kernel_died: "kernel died" }[verdict] ?? verdict;
      return { kind: verdict === "ok" ? "ok" : verdict === "interrupted" ? "warn" : "bad", words, took, count };
    }
  }
}

function Elapsed({ since }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.round((now - Date.parse(since)) / 1000));
  return html`<span class="quiet">${seconds} s</span>`;
}

const CodeCell = memo(({ live, cell, pending, language, first, view, onEdit, onFork }) => {
  const [open, setOpen] = useState(null);
  const lines = cell.source.split("\n").length;
  const approval = pending?.request === "approval" ? pending : null;
  const isFolded = !approval && (open === null ? view === "chat" && lines > FOLD && cell.status !== "running" : !open);
  const status = statusOf(cell);
  const own = cell.language ?? language;
  const copy = () => attempt(async () => { await navigator.clipboard.writeText(cell.source); toast("Code copied"); });
  return html`<article class=${`code ${status.kind} ${isFolded ? "folded" : ""}`} aria-label=${`${nameOf(own)} code`} data-cell=${cell.id} data-status=${status.words || "ok"}>
    <header>
      <span class="count" title=${cell.count ? `In [${cell.count}]` : ""}>${view === "notebook" ? `[${cell.status === "running" ? "*" : cell.count ?? " "}]` : html`<i class="dot"></i>`}</span>
      <span class="language">${nameOf(own)}</span>
      ${cell.author === "person" && html`<span class="badge">yours</span>`}
      ${cell.original !== null && html`<span class="badge">edited</span>`}
      ${status.words && html`<span class=${`status ${status.kind}`}>${status.words}</span>`}
      ${cell.status === "running" && cell.started ? html`<${Elapsed} since=${cell.started} />` : html`<span class="quiet">${status.took}</span>`}
      <span class="space"></span>
      ${lines > FOLD && !approval && html`<button type="button" class="link" aria-expanded=${!isFolded} onClick=${() => setOpen(isFolded)}>${isFolded ? plural(lines, "line") : "Fold"}</button>`}
      <${Tool} icon="edit" label="Edit a copy and run it" onClick=${() => onEdit(cell.source)} />
      <${Tool} icon="fork" label="Fork: another session up to here" onClick=${() => onFork(cell.id)} />
      <${Tool} icon="copy" label="Copy code" onClick=${copy} />
    </header>
    <${Code} source=${cell.source} language=${own} />
    ${status.reason && html`<p class="remark">${status.reason}</p>`}
    ${approval && html`<${Approval} live=${live} cell=${cell} findings=${approval.findings} why=${approval.reason} />`}
    <${Outputs} live=${live} cell=${cell} language=${own} first=${first} />
    <${Made} live=${live} files=${cell.files} />
    ${pending?.request === "input" && html`<${Input} live=${live} pending=${pending} />`}
  </article>`;
});

/** The files that a cell made or changed, to be had at once. */
function Made({ live, files }) {
  const made = [...(files?.created ?? []), ...(files?.changed ?? [])];
  const more = Math.max(0, made.length - 8) + (files?.more ?? 0);
  const gone = files?.deleted?.length ?? 0;
  if (!made.length && !gone) return null;
  return html`<ul class="chips made" aria-label="Files of this cell">${made.slice(0, 8).map((it) => html`<li key=${it.path}>
    ${it.path.endsWith("/") ? html`<${Icon} name="folder" />${it.path}` : html`<a href=${live.to.file(it.path)} download=${it.path.split("/").at(-1)}><${Icon} name="save" />${it.path}</a>`}
    <span class="quiet">${size(it.bytes)}</span>${it.runs && html`<span class="status warn">${it.runs}</span>`}</li>`)}
    ${more > 0 && html`<li>${more} more</li>`}${gone > 0 && html`<li>${gone} deleted</li>`}</ul>`;
}

// ---- questions

async function answer(live, command) {
  try {
    await live.to.command(command);
  } catch (error) {
    if (error.status !== 409) throw error;
    toast(error.by ? `${error.by} was first` : error.message);
  }
}

function Approval({ live, cell, findings, why }) {
  const [mode, setMode] = useState(null);
  const [isSent, setSent] = useState(false);
  const text = useRef();
  const box = useRef();
  useLayoutEffect(() => { text.current?.focus(); }, [mode]);
  useEffect(() => {
    // Whoever writes something goes on writing.
    const now = document.activeElement;
    if (!now || now === document.body || now.id === "main" || now.dataset.idle === "true") box.current?.querySelector(".primary")?.focus({ preventScroll: true });
  }, []);
  const decide = (decision) => attempt(async () => {
    setSent(true);
    await answer(live, { command: "decide", cell: cell.id, decision }).finally(() => setSent(false));
  });
  const findingsList = findings?.length > 0 && html`<ul class="findings">${findings.map(({ line, text: what, reason }) => html`<li>
    <b>Line ${line}</b> ${what && html`<code>${what}</code>`} ${reason}</li>`)}</ul>`;
  const rowsShown = Math.min(24, Math.max(4, cell.source.split("\n").length + 1));
  return html`<section class="ask" ref=${box} aria-label="May this code run?">
    ${findingsList}
    ${mode === "edit" && html`<textarea ref=${text} class="editor" rows=${rowsShown} spellcheck=${false} aria-label="Edit the code"
      onKeyDown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) { event.preventDefault(); decide({ decision: "change", source: text.current.value }); } else if (event.key === "Escape") setMode(null); }}>${cell.source}</textarea>`}
    ${mode === "no" && html`<form class="line" onSubmit=${(event) => { event.preventDefault(); decide({ decision: "decline", reason: text.current.value.trim() || null }); }}>
      <input ref=${text} placeholder="What should the model do instead? (optional)" aria-label="Words for the model" onKeyDown=${(event) => event.key === "Escape" && setMode(null)} />
      <button type="submit" class="primary" disabled=${isSent}>Decline</button></form>`}
    <div class="ask-line">
      <strong>Run this code?</strong>${why && findings?.length > 0 && html`<span class="quiet">${why}</span>`}<span class="space"></span>
      ${mode === "edit"
        ? html`<button type="button" class="primary" disabled=${isSent} onClick=${() => decide({ decision: "change", source: text.current.value })}>Run edited</button>
          <button type="button" onClick=${() => setMode(null)}>Cancel</button>`
        : html`<button type="button" class="primary" disabled=${isSent} onClick=${() => decide({ decision: "run" })}><${Icon} name="run" />Run</button>
          <button type="button" onClick=${() => setMode("edit")}>Edit</button>
          <button type="button" aria-expanded=${mode === "no"} onClick=${() => setMode(mode === "no" ? null : "no")}>No…</button>
          <button type="button" disabled=${isSent} title="Run it, and do not ask again in this session about code that does the same" onClick=${() => decide({ decision: "always" })}>Always</button>`}
    </div>
  </section>`;
}

function Input({ live, pending }) {
  const field = useRef();
  // Before anything is typed: the field of the question before may be this one.
  useLayoutEffect(() => { field.current.value = ""; field.current.focus({ preventScroll: true }); field.current.scrollIntoView({ block: "nearest" }); }, [pending]);
  const send = (event) => {
    event.preventDefault();
    attempt(() => answer(live, { command: "reply", cell: pending.cell, value: field.current.value }));
  };
  return html`<form class="ask line" aria-label="The code asks for input" onSubmit=${send}>
    <label><span>${pending.prompt || "Input"}</span>
    <input ref=${field} type=${pending.password ? "password" : "text"} autocomplete="off" /></label>
    <button type="submit" class="primary">Send</button></form>`;
}

function GoOn({ live, pending }) {
  const words = {
    step_limit: `The model has used its ${pending.steps} steps.`, repeating: "The same code failed three times in the same way.", budget: pending.message,
  }[pending.end] ?? "A limit is reached.";
  const field = useRef();
  const say = (go_on, words) => attempt(() => answer(live, { command: "continue", go_on, ...(words && { words }) }));
  const change = (event) => {
    event.preventDefault();
    const words = field.current.value.trim();
    if (words) say(true, words);
  };
  if (pending.end === "planned") {
    return html`<section class="ask card" aria-label="Approve the plan?"><form class="line" onSubmit=${change}>
      <label><span>What should change?</span><input ref=${field} type="text" autocomplete="off" /></label><button type="submit">Plan again</button></form>
      <div class="ask-line"><strong>Approve this plan?</strong><span class="space"></span>
      <button type="button" class="primary" onClick=${() => say(true)}>Approve</button><button type="button" onClick=${() => say(false)}>Discard</button></div></section>`;
  }
  return html`<section class="ask card" aria-label="Continue?"><div class="ask-line"><strong>${words} Continue?</strong><span class="space"></span>
    <button type="button" class="primary" onClick=${() => say(true)}>Continue</button><button type="button" onClick=${() => say(false)}>Stop</button></div></section>`;
}

function Restore({ live, pending }) {
  const say = (replay) => attempt(() => answer(live, { command: "restore", replay }));
  return html`<section class="ask card" aria-label="Bring the variables back?"><p>The kernel of this session is gone, and its variables with it. ${plural(pending.code_cells, "cell")} can run again to bring them back.</p>
    <div class="ask-line"><span class="space"></span><button type="button" class="primary" onClick=${() => say(true)}>Run them again</button><button type="button" onClick=${() => say(false)}>Continue without them</button></div></section>`;
}

// ---- all of it

const Said = memo(({ cell, isLive, step }) => {
  switch (cell.kind) {
    case "user":
      if (cell.carried?.shape === "markdown") return html`<section class="document"><${Words} text=${cell.source} /></section>`;
      return html`<article class="you" aria-label="You">${cell.by && cell.by !== OWN && html`<p class="by">${cell.by}</p>`}<${Words} text=${cell.source} /></article>`;
    case "assistant":
      return html`<article class="model" aria-label="Model"><${Words} text=${cell.source} isLive=${isLive} /></article>`;
    case "cut":
      return html`<article class="model cut" aria-label="Model, cut off"><${Words} text=${cell.source} /></article>`;
    default: {
      const [title, text] = { note: ["Note to the model", cell.source], reading: ["The model read more of an output", `${cell.source}\n\n${cell.answer ?? ""}`], compaction: ["The conversation was compacted here", cell.source] }[cell.kind] ?? [cell.kind, cell.source];
      return html`<details class="aside"><summary>${title}</summary><pre>${text}</pre></details>`;
    }
  }
});

const Notice = ({ notice }) => html`<p class=${`notice ${notice.kind}`} role=${notice.kind === "bad" ? "alert" : undefined}>${notice.message}</p>`;

export function Conversation({ live, view, onEdit, onFork }) {
  const { session } = live;
  const language = session.kernel?.language ?? session.kernels[0]?.language ?? "python";
  // What is told of cells that were taken back stands at the end.
  const noticesAt = new Map();
  for (const notice of session.notices) {
    const at = notice.after === null || session.index.has(notice.after) ? notice.after : "end";
    noticesAt.set(at, [...(noticesAt.get(at) ?? []), notice]);
  }
  const isSampling = session.turn === "sampling";
  let plots = 1;
  const rows = session.cells.map((cell, at) => {
    const pending = session.pending.find((it) => it.cell === cell.id) ?? null;
    const isLast = at === session.cells.length - 1;
    // What only the model reads is in the notebook.
    const made = cell.kind === "note" && view === "chat" ? null : cell.kind === "code"
      ? html`<${CodeCell} key=${cell.id} live=${live} cell=${cell} pending=${pending} language=${language} first=${plots} view=${view} onEdit=${onEdit} onFork=${onFork} />`
      : html`<${Said} key=${cell.id} cell=${cell} isLive=${isLast && isSampling} />`;
    plots += cell.outputs?.filter((it) => it.output?.data && ["image/png", "image/jpeg", "image/svg+xml"].some((mime) => mime in it.output.data)).length ?? 0;
    return html`${made}${noticesAt.get(cell.id)?.map((notice) => html`<${Notice} key=${notice.id} notice=${notice} />`)}`;
  });
  return html`<div class=${`conversation ${view}`} role="log" aria-label="Conversation" aria-live="polite" aria-relevant="additions">
    ${noticesAt.get(null)?.map((notice) => html`<${Notice} key=${notice.id} notice=${notice} />`)}
    ${rows}
    ${noticesAt.get("end")?.map((notice) => html`<${Notice} key=${notice.id} notice=${notice} />`)}
    ${[...session.speaking].map(([id, text]) => html`<article key=${id} class="model"><${Words} text=${text} isLive /></article>`)}
    ${[...session.writing].map(([id, source]) => html`<article key=${id} class="code busy writing" aria-label="Code being written" aria-live="off"><header>
      <span class="count"><i class="dot"></i></span><span class="language">${nameOf(language)}</span><span class="status busy">writing</span></header><${Code} source=${source} isLive /></article>`)}
    ${session.pending.map((it) => it.request === "continue" ? html`<${GoOn} live=${live} pending=${it} />` : it.request === "restore" ? html`<${Restore} live=${live} pending=${it} />` : null)}
    ${isSampling && session.writing.size === 0 && html`<div class="thinking" aria-hidden="true"><i></i><i></i><i></i>${session.reasoning && html`<details><summary>Thinking</summary><pre>${session.reasoning}</pre></details>`}</div>`}
    ${session.turn === "idle" && session.followUps.length > 0 && html`<div class="buttons" role="group" aria-label="Suggested questions">
      ${session.followUps.map((text) => html`<button type="button" key=${text} onClick=${() => attempt(() => live.to.command({ command: "submit", text }))}>${text}</button>`)}</div>`}
    ${session.turn === "compacting" && html`<p class="notice">Compacting the conversation…</p>`}
  </div>`;
}
