// The list of sessions, and the page on which one begins.

import { post, read, routes, written } from "./api.js";
import { Composer } from "./composer.js";
import { Icon, Tool, attempt, html, keep, kept, size, toast, useEffect, useRef, useState, when } from "./ui.js";

export const open = (id) => { location.hash = id ? `#/s/${encodeURIComponent(id)}` : "#/"; };
export const resume = (id) => attempt(async () => open((await post("sessions", { resume: id })).id));

/** Another session that begins as this one did, up to a cell. */
export const fork = (id, at) => attempt(async () => {
  const made = await post(`sessions/${encodeURIComponent(id)}/fork`, at ? { at } : {});
  open(made.id);
  toast("This is the copy; the original session is unchanged");
});

/** What to do where no model answers. */
export const NoModel = () => html`<section class="card no-model" aria-label="No model"><p><b>There is no model to ask.</b> Your own code runs without one: choose <i>Code</i> below.</p>
  <p class="quiet">To ask questions, set <code>OPENAI_API_KEY</code>, <code>ANTHROPIC_API_KEY</code> or <code>GEMINI_API_KEY</code> where <code>sponde serve</code> starts, start Ollama or another local server, or get a small model for this machine with <code>sponde models pull</code>. Then start the server again, or choose the model at the top.</p></section>`;

/** The sessions there are, asked for now and then while somebody looks. */
export function useSessions(now) {
  const [list, setList] = useState({ live: [], stored: [], isLoading: true });
  useEffect(() => {
    let isGone = false;
    const load = () => !document.hidden && read("sessions").then((it) => !isGone && setList(it), () => {});
    load();
    const timer = setInterval(load, 4000);
    document.addEventListener("visibilitychange", load);
    return () => { isGone = true; clearInterval(timer); document.removeEventListener("visibilitychange", load); };
  }, [now]);
  return list;
}

const title = (session) => session.title || "New session";

export function Sidebar({ list, current, onPick, theme, setTheme, onEnded }) {
  const [filter, setFilter] = useState("");
  const fits = (it) => title(it).toLowerCase().includes(filter.toLowerCase());
  const end = (it) => attempt(async () => {
    await routes(it.id).end();
    toast("Session ended; it can be resumed");
    onEnded();
  });
  const stored = list.stored.filter(fits);
  return html`<nav class="sidebar" aria-label="Sessions">
    <div class="brand"><img src="assets/icon.svg" alt="" width="22" height="22" /><b>Sponde</b><span class="space"></span>
      <${Tool} icon="sun" label=${`Colours: ${theme}`} onClick=${() => setTheme({ system: "light", light: "dark", dark: "system" }[theme])} /></div>
    <a class="new" href="#/" aria-current=${current ? undefined : "page"} onClick=${onPick}><${Icon} name="plus" />New session</a>
    <input type="search" placeholder="Search sessions" aria-label="Search sessions" value=${filter} onInput=${(event) => setFilter(event.target.value)} />
    <div class="lists">
      ${list.live.length > 0 && html`<h2>Running</h2><ul>${list.live.filter(fits).map((it) => html`<li key=${it.id}>
        <a href=${`#/s/${encodeURIComponent(it.id)}`} aria-current=${it.id === current ? "page" : undefined} onClick=${onPick}>
          <i class=${`dot ${it.pending ? "wait" : it.busy ? "busy" : "ok"}`}></i><span class="name">${title(it)}</span>
          ${it.pending && html`<span class="badge accent">asks</span>`}</a>
        <${Tool} icon="close" label=${`End ${title(it)}`} onClick=${() => end(it)} /></li>`)}</ul>`}
      ${stored.length > 0 && html`<h2>Earlier</h2><ul>${stored.slice(0, 200).map((it) => html`<li key=${it.id}>
        <button type="button" class="stored" disabled=${it.open} title=${it.open ? "Open in another program" : "Resume this session"} onClick=${() => { onPick(); resume(it.id); }}>
          <span class="name">${title(it)}</span><span class="quiet">${when(it.updated)}</span></button></li>`)}</ul>`}
      ${list.live.length + list.stored.length === 0 && !list.isLoading && html`<p class="quiet pad">Sessions appear here. Each is a notebook that you keep.</p>`}
    </div>
  </nav>`;
}

const EXAMPLES = [
  ["Explore a file", "Load the files I added, describe every column, and show the three most interesting findings with charts."],
  ["Simulate", "Simulate 10,000 rolls of two dice, plot the distribution of the sum, and compare it with theory."],
  ["Explain by example", "Show with a small experiment how the mean and the median react to outliers, with a chart."],
];

const ASKS = {
  always: "You are asked before any code of the model runs.",
  "on-risk": "You are asked before code of the model that might do harm.",
  never: "Code of the model runs without asking you.",
};
const CONFINES = {
  full: "Code is not confined: it can do all that the server's user can.",
  gateway: "Code runs at a gateway, outside this machine's sandbox.",
  "not-ours": "Code runs in a kernel that was there before, without a sandbox.",
};

/** What code may do in new sessions, as the server says it. */
function Facts({ about }) {
  // Its room is there from the start: nothing moves below a pointer.
  if (!about) return html`<ul class="facts"></ul>`;
  const { kind, words } = about.sandbox;
  const isSafe = kind === "confined";
  return html`<ul class="facts" aria-label="Permissions"><li class=${isSafe ? "" : "warn"}>${CONFINES[kind] ?? (isSafe ? `Code runs in a sandbox: ${words}.` : `${words}.`)}</li>
    <li class=${about.approval === "never" && !isSafe ? "warn" : ""}>${ASKS[about.approval]}</li></ul>`;
}

/** Where a session begins, and what tells a newcomer what this is. */
export function Home({ dropped, onDropped }) {
  const [models, setModels] = useState(null);
  const [kernels, setKernels] = useState([]);
  const [about, setAbout] = useState(null);
  const [model, setModel] = useState(kept("model", ""));
  const [kernel, setKernel] = useState("");
  const [draft, setDraft] = useState(null);
  const [mode, setMode] = useState("ask");
  const picker = useRef();
  useEffect(() => {
    read("models").then((it) => { setModels(it); if (it.length === 0) setMode("code"); }, () => {});
    read("kernels").then(setKernels, () => {});
    read("about").then(setAbout, () => {});
  }, []);
  const start = async (text, what) => {
    const { id, notices } = await post("sessions", { ...(model ? { model } : {}), ...(kernel ? { kernel } : {}) });
    notices?.forEach((it) => toast(it));
    const to = routes(id);
    let words = text;
    if (dropped.length) {
      await to.drop(dropped);
      if (what !== "code" && !dropped.some((it) => text.includes(it.name))) words = `${text}\n\nFiles: ${dropped.map((it) => `\`${it.name}\``).join(", ")}`;
      onDropped([]);
    }
    open(id);
    await to.command(written(what === "code" ? text : words, what));
  };
  const choose = (value) => { setModel(value); keep("model", value); };
  const chooser = (label, value, set, options) => options.length > 0 && html`<label class="choose"><span class="hidden">${label}</span>
    <select value=${value} aria-label=${label} onChange=${(event) => set(event.target.value)}><option value="">${`Default ${label.toLowerCase()}`}</option>
    ${options.map((it) => html`<option value=${it.name} disabled=${it.available === false}>${it.display_name ?? it.name}</option>`)}</select></label>`;
  return html`<main class="home" id="main" tabindex="-1"><div class="home-in">
    <h1>What would you like to find out?</h1>
    <p class="lead">Ask in plain words. A model writes code, a Jupyter kernel runs it, and the conversation is a notebook that you keep.</p>
    <${Composer} draft=${draft} mode=${mode} setMode=${setMode} placeholder="Ask about your data, or drop a file" onSend=${start} onFiles=${onDropped.add} isBusy=${false}>
      ${chooser("Model", model, choose, models ?? [])}${chooser("Kernel", kernel, setKernel, kernels)}
    <//>
    ${models?.length === 0 && html`<${NoModel} />`}
    ${dropped.length > 0 && html`<ul class="chips" aria-label="Files to add">${dropped.map((it) => html`<li><${Icon} name="file" />${it.name}<span class="quiet">${size(it.size)}</span>
      <${Tool} icon="close" label=${`Remove ${it.name}`} onClick=${() => onDropped(dropped.filter((other) => other !== it))} /></li>`)}</ul>`}
    <div class="examples" hidden=${models?.length === 0}>${EXAMPLES.map(([name, text]) => html`<button type="button" onClick=${() => { setMode("ask"); setDraft({ text }); }}><b>${name}</b><span>${text}</span></button>`)}</div>
    <button type="button" class="drop" onClick=${() => picker.current.click()}><${Icon} name="up" /><span>Drop files here, or choose them. They are copied into the session's workspace.</span></button>
    <input ref=${picker} type="file" multiple hidden onChange=${(event) => { onDropped.add([...event.target.files]); event.target.value = ""; }} />
    <${Facts} about=${about} />
  </div></main>`;
}

