// What stands beside the conversation: variables, files, kernels, cost, history.

import { Grid } from "./grid.js";
import { Dialog, Icon, Tool, attempt, html, question, size, thousands, toast, useEffect, useRef, useState, when } from "./ui.js";

const TABS = { variables: "Variables", files: "Files", kernels: "Kernels", cost: "Cost", history: "History" };

export function Panel({ live, tab, sandbox, setTab, onClose, onMention }) {
  const Inside = { variables: Variables, files: Files, kernels: Kernels, cost: Cost, history: History }[tab];
  const keys = (event) => {
    const names = Object.keys(TABS);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names.at((names.indexOf(tab) + step) % names.length);
    setTab(next);
    event.currentTarget.querySelector(`#tab-${next}`).focus();
  };
  return html`<aside class="panel" aria-label="Details">
    <div class="tabs"><div role="tablist" onKeyDown=${keys}>${Object.entries(TABS).map(([name, words]) => html`<button type="button" role="tab" id=${`tab-${name}`} aria-selected=${name === tab} aria-controls="tabpanel" tabindex=${name === tab ? 0 : -1} onClick=${() => setTab(name)}>${words}</button>`)}</div>
      <${Tool} icon="close" label="Close panel" onClick=${onClose} /></div>
    <div class="panel-body" role="tabpanel" id="tabpanel" aria-labelledby=${`tab-${tab}`}><${Inside} live=${live} sandbox=${sandbox} onMention=${onMention} /></div>
  </aside>`;
}

/** Asks again whenever code has ended. */
function useAfterCode(live, ask, more = []) {
  const [found, setFound] = useState({ value: null, error: null });
  const finished = live.session.cells.filter((cell) => cell.finished).length;
  const isRunning = live.session.turn === "executing";
  useEffect(() => {
    let isOld = false;
    if (!isRunning || found.value === null) ask().then((value) => !isOld && setFound({ value, error: null }), (error) => !isOld && setFound((was) => ({ ...was, error: error.message })));
    return () => { isOld = true; };
  }, [live, finished, isRunning, ...more]);
  return found;
}

function Variables({ live }) {
  const { kernels } = live.session;
  const main = kernels[0]?.language;
  const [language, setLanguage] = useState(main);
  const { value, error } = useAfterCode(live, () => live.to.variables(language), [language]);
  const [grid, setGrid] = useState(null);
  const [filter, setFilter] = useState("");
  const all = (!error && value) || [];
  // Only kernels of Python are asked for rows.
  const isFrame = (it) => (language ?? main) === "python" && it.type.includes("DataFrame");
  return html`${kernels.length > 1 && html`<label class="pad line">Kernel <select value=${language} onChange=${(event) => setLanguage(event.target.value)}>
      ${kernels.map((it) => html`<option value=${it.language}>${it.kernel}</option>`)}</select></label>`}
    ${error && html`<p class="quiet pad">${error}</p>`}
    ${!error && value?.length === 0 && html`<p class="quiet pad">Variables appear here once code has run.</p>`}
    ${all.length > 8 && html`<input type="search" placeholder="Filter" aria-label="Filter variables" value=${filter} onInput=${(event) => setFilter(event.target.value)} />`}
    <ul class="rows">${all.filter((it) => it.name.toLowerCase().includes(filter.toLowerCase())).map((it) => {
      const facts = [it.type, it.shape?.replaceAll("x", "×"), it.size != null ? `${thousands(it.size)} long` : null].filter(Boolean).join(" · ");
      const inside = html`<span class="row-head"><code>${it.name}</code><span class="quiet">${facts}</span></span>${it.preview && html`<span class="preview">${it.preview}</span>`}`;
      return html`<li key=${it.name}>${isFrame(it) ? html`<button type="button" class="row" title=${`Open ${it.name}`} onClick=${() => setGrid(it.name)}>${inside}<${Icon} name="table" /></button>` : html`<div class="row">${inside}</div>`}</li>`;
    })}</ul>
    ${grid && html`<${Grid} live=${live} name=${grid} onClose=${() => setGrid(null)} />`}`;
}

const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const TEXT_BYTES = 200_000;

function Preview({ live, path, onClose }) {
  const [text, setText] = useState(null);
  useEffect(() => {
    if (IMAGE.test(path)) return;
    live.to.readFile(path, `bytes=0-${TEXT_BYTES - 1}`).then(async (response) => {
      const got = await response.text();
      setText(got.includes("\0") ? "(not text)" : got.length >= TEXT_BYTES ? `${got}\n…` : got);
    }, (error) => setText(error.message));
  }, [path]);
  return html`<${Dialog} title=${path} wide onClose=${onClose}>${IMAGE.test(path)
    ? html`<div class="lightbox"><img src=${live.to.file(path)} alt=${path} /></div>`
    : html`<pre class="file" tabindex="0">${text ?? "Reading…"}</pre>`}<//>`;
}

function Files({ live, onMention }) {
  const [path, setPath] = useState("");
  const [round, setRound] = useState(0);
  const [shown, setShown] = useState(null);
  const picker = useRef();
  const { value, error } = useAfterCode(live, () => live.to.files(path), [path, round, live.dropped]);
  const all = [...(value ?? [])].sort((a, b) => (a.kind === b.kind ? a.name.localeCompare(b.name) : a.kind === "directory" ? -1 : 1));
  const at = (name) => (path ? `${path}/${name}` : name);
  const drop = (files) => attempt(async () => {
    await live.to.drop(files, path);
    setRound(round + 1);
    onMention(files.map((it) => at(it.name)));
  });
  const remove = (name) => attempt(async () => {
    if (!(await question({ title: `Delete ${name}?`, text: `${at(name)} is removed from the workspace.`, yes: "Delete" }))) return;
    await live.to.removeFile(at(name));
    setRound(round + 1);
    toast(`${name} deleted`);
  });
  return html`<div class="row-head pad"><span class="path">${path ? html`<button type="button" class="link" onClick=${() => setPath(path.split("/").slice(0, -1).join("/"))}>‹ Up</button> ${path}` : "Workspace"}</span>
      <span class="space"></span><button type="button" class="link" onClick=${() => picker.current.click()}>Add files</button>
      <input ref=${picker} type="file" multiple hidden onChange=${(event) => { drop([...event.target.files]); event.target.value = ""; }} /></div>
    ${error && html`<p class="bad pad">${error}</p>`}
    ${value && all.length === 0 && html`<p class="quiet pad">Nothing here yet. Drop files anywhere on the page.</p>`}
    <ul class="rows">${all.map((it) => html`<li key=${it.name} class="row">
      <button type="button" class="row-main" onClick=${() => (it.kind === "directory" ? setPath(at(it.name)) : setShown(at(it.name)))}><${Icon} name=${it.kind === "directory" ? "folder" : "file"} />
        <span class="name">${it.name}</span><span class="quiet">${it.kind === "directory" ? "" : size(it.bytes)}</span></button>
      ${it.kind !== "directory" && html`<a class="tool" href=${live.to.file(at(it.name))} download=${it.name} aria-label=${`Download ${it.name}`} title="Download"><${Icon} name="save" /></a>
        <${Tool} icon="trash" label=${`Delete ${it.name}`} onClick=${() => remove(it.name)} />`}</li>`)}</ul>
    ${shown && html`<${Preview} live=${live} path=${shown} onClose=${() => setShown(null)} />`}`;
}

const command = (live, value) => attempt(() => live.to.command(value));

export async function restart(live) {
  const wanted = await question({ title: "Restart the kernel?", text: "All its variables are lost. The conversation stays.", yes: "Restart" });
  if (wanted) command(live, { command: "restart_kernel" });
}

function Kernels({ live, sandbox }) {
  const { session } = live;
  return html`<ul class="rows">${session.kernels.map((it, at) => {
      const known = session.kernelStates[it.kernel];
      const state = known?.state ?? (at === 0 && session.cells.some((cell) => cell.count) ? "ready" : "not started");
      return html`<li class="row"><div class="row-main"><i class=${`dot ${{ ready: "ok", busy: "busy", died: "bad", failed: "bad" }[state] ?? "wait"}`}></i>
        <span class="name">${it.kernel}</span><span class="quiet">${it.language} · ${state}</span></div></li>
        ${known?.log && html`<details class="aside"><summary>Kernel log</summary><pre>${known.log}</pre></details>`}`;
    })}</ul>
    <div class="pad buttons">
      <button type="button" disabled=${session.turn === "idle"} onClick=${() => command(live, { command: "interrupt" })}>Interrupt</button>
      <button type="button" onClick=${() => restart(live)}>Restart</button>
      ${Object.values(session.kernelStates).some((it) => it.state === "busy") && html`<button type="button" onClick=${() => command(live, { command: "replace_kernel" })}>Continue in a new kernel</button>`}
    </div>
    ${sandbox && html`<section class="pad"><h3>Permissions</h3><p class="quiet">${sandbox.replace(/^sandbox: /, "")}</p></section>`}
    <fieldset class="pad"><legend>Code of the model</legend>${[["always", "Ask before it runs"], ["on-risk", "Ask if it might do harm"], ["never", "Run it without asking"]].map(([value, words]) => html`<label class="radio">
      <input type="radio" name="approval" checked=${session.approval === value} onChange=${() => command(live, { command: "set_approval", approval: value })} />${words}</label>`)}</fieldset>
    <p class="quiet pad">Notebook: <code>${session.notebook}</code></p>
    ${session.instructions.length > 0 && html`<p class="quiet pad">Instructions: ${session.instructions.join(", ")}</p>`}`;
}

const dollars = (value) => (value == null ? "unknown" : value >= 1 ? `$${value.toFixed(2)}` : `$${value.toFixed(4)}`);

function Cost({ live }) {
  const { session } = live;
  const of = (spent) => spent && { requests: spent.requests, input_tokens: spent.usage.input, cached_tokens: spent.usage.cached, output_tokens: spent.usage.output, cost_usd: spent.usage.cost == null ? null : spent.usage.cost / 1e9, seconds: spent.milliseconds / 1000 };
  const question = session.cells.findLast((cell) => cell.kind === "user");
  const columns = [["This turn", of(session.turns[question?.id])], ["Session", of(session.spent)]];
  const rows = [["Requests", "requests"], ["Tokens sent", "input_tokens"], ["of these cached", "cached_tokens"], ["Tokens received", "output_tokens"], ["Cost", "cost_usd"], ["Time", "seconds"]];
  const shown = (key, value) => (value === undefined ? "" : key === "cost_usd" ? dollars(value) : key === "seconds" ? `${value.toFixed(1)} s` : thousands(value));
  return html`<table class="cost"><thead><tr><th></th>${columns.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map(([words, key]) => html`<tr><th scope="row">${words}</th>${columns.map(([, spent]) => html`<td>${shown(key, spent?.[key])}</td>`)}</tr>`)}</tbody></table>
    <div class="pad buttons"><button type="button" disabled=${session.turn !== "idle"} onClick=${() => command(live, { command: "compact" })}>Compact the conversation</button>
      <button type="button" disabled=${session.turn !== "idle"} onClick=${() => command(live, { command: "suggest" })}>Suggest questions</button></div>`;
}

function History({ live }) {
  const { checkpoints, turn, cells } = live.session;
  useEffect(() => { if (turn === "idle") command(live, { command: "checkpoints" }); }, [live, turn, cells.length]);
  if (!checkpoints) return html`<p class="quiet pad">Checkpoints appear here after the first turn.</p>`;
  if (checkpoints.length === 0) return html`<p class="quiet pad">There are no checkpoints.</p>`;
  return html`<ul class="rows">${checkpoints.filter((it) => it.starts_turn).map((it) => html`<li class="row" key=${it.number}><div class="row-main column"><span class="name">Before: ${it.before}</span>
    <span class="quiet">${when(it.at)} · variables from ${it.kind}${it.bytes ? ` (${size(it.bytes)})` : ""}</span></div>
    <button type="button" disabled=${turn !== "idle"} onClick=${() => undo(live, { checkpoint: it.number })}>Go back</button></li>`)}</ul>`;
}

/** Takes turns back; whoever asked is asked again if not all will be as it was. */
export function undo(live, to, anyway = false) {
  live.undoing = to;
  return command(live, { command: "undo", to, anyway });
}

export function UndoAsks({ live, draw }) {
  const { undoAsks } = live.session;
  if (!undoAsks || !live.undoing) return null;
  const close = () => { live.session.undoAsks = null; live.undoing = null; draw(); };
  return html`<${Dialog} title="Undo would be incomplete" onClose=${close}><ul>${undoAsks.map((it) => html`<li>${it}</li>`)}</ul>
    <div class="buttons"><span class="space"></span><button type="button" onClick=${close}>Cancel</button>
    <button type="button" class="primary" onClick=${() => { const to = live.undoing; close(); undo(live, to, true); }}>Undo anyway</button></div><//>`;
}
