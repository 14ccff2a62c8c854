// The page: login, which session is shown, and its frame.

import { auth, post, read, written } from "./api.js";
import { Conversation } from "./cells.js";
import { Composer } from "./composer.js";
import { Live } from "./live.js";
import { Panel, UndoAsks, undo } from "./panels.js";
import { Home, NoModel, Sidebar, fork, open, resume, useSessions } from "./sessions.js";
import { Icon, Menu, Toasts, Tool, attempt, html, render, toast, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./ui.js";

const kept = (name, fallback) => localStorage.getItem(`sponde.${name}`) ?? fallback;
const keep = (name, value) => localStorage.setItem(`sponde.${name}`, value);
const isNarrow = () => matchMedia("(max-width: 60rem)").matches;

/** A token in the address is used at once and taken out of it: history and screenshots keep addresses. */
async function login() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  await post("login", { token: decodeURIComponent(token) });
}

function Login({ onDone, message }) {
  const [problem, setProblem] = useState(message);
  const send = async (event) => {
    event.preventDefault();
    const given = event.target.token.value.trim();
    try {
      await post("login", { token: /token=([^&]+)/.exec(given)?.[1] ?? given });
      onDone();
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<main class="login"><form class="card" onSubmit=${send}>
    <img src="assets/icon.svg" alt="" width="36" height="36" /><h1>Sponde</h1>
    <p>Open the address that <code>sponde serve</code> printed, or paste it or its token here.</p>
    <label>Token<input name="token" type="password" autocomplete="off" autofocus required /></label>
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    <button type="submit" class="primary">Log in</button></form></main>`;
}

function Session({ id, facts, onMenu, onGone, dropped }) {
  const [, setRound] = useState(0);
  const draw = () => setRound((n) => n + 1);
  const [view, setView] = useState(kept("view", "chat"));
  const [mode, setMode] = useState("ask");
  const [draft, setDraft] = useState(null);
  const [models, setModels] = useState([]);
  const [panel, setPanelState] = useState(isNarrow() ? "" : kept("panel", ""));
  const setPanel = (name) => { setPanelState(name); keep("panel", name); };
  const live = useMemo(() => new Live(id, () => draw(), onGone), [id]);
  const scroller = useRef();
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  useEffect(() => () => live.close(), [live]);
  useEffect(() => { if (!isNarrow()) document.querySelector(".foot textarea")?.focus(); }, [live]);
  useEffect(() => { read("models").then((it) => setModels(it.models ?? it), () => {}); }, []);
  const { session } = live;
  const isBusy = session.turn !== "idle";

  // The newest stays in view for whoever is there, and nobody else is moved.
  useLayoutEffect(() => {
    const box = scroller.current;
    if (isAtEnd.current) box.scrollTop = box.scrollHeight;
  });
  useEffect(() => {
    const box = scroller.current;
    const watch = new ResizeObserver(() => { if (isAtEnd.current) box.scrollTop = box.scrollHeight; });
    watch.observe(box.firstChild);
    return () => watch.disconnect();
  }, [live]);
  const scrolled = (event) => {
    const box = event.currentTarget;
    const was = isAtEnd.current;
    // Only a person scrolls back: what grows below does not count.
    if (box.scrollHeight - box.scrollTop - box.clientHeight < 80) isAtEnd.current = true;
    else if (box.scrollTop < lastTop.current - 2) isAtEnd.current = false;
    lastTop.current = box.scrollTop;
    if (was !== isAtEnd.current) draw();
  };

  const mention = (names) => {
    toast(`${names.join(", ")} ${names.length === 1 ? "is" : "are"} in the workspace`);
    setMode("ask");
    setDraft({ text: `${names.map((name) => `\`${name}\``).join(", ")} `, append: true });
  };
  const take = (files) => attempt(async () => {
    if (!files.length) return;
    await live.to.drop(files);
    live.dropped = (live.dropped ?? 0) + 1;
    mention(files.map((it) => it.name));
  });
  dropped.current = take;
  const send = async (text, what) => {
    isAtEnd.current = true;
    await live.to.command(written(text, what));
  };
  const stop = () => attempt(() => live.to.command({ command: "interrupt" }));
  const change = (next) => { setView(next); keep("view", next); setMode(next === "notebook" ? "code" : "ask"); };
  const edit = (source) => { setMode("code"); setDraft({ text: source }); };
  const doing = { sampling: "The model is writing", executing: "Code is running", deciding: "Waiting for your answer", compacting: "Compacting", paused: "Waiting for your answer" }[session.turn];
  const name = facts?.title || session.cells.find((cell) => cell.kind === "user")?.source.split("\n")[0] || "New session";
  useEffect(() => { document.title = `${session.pending.length ? "● " : ""}${name} · Sponde`; }, [name, session.pending.length]);

  return html`<main class=${`session ${panel ? "with-panel" : ""}`} id="main" tabindex="-1">
    <header class="bar">
      <${Tool} icon="menu" label="Sessions" class="only-narrow" onClick=${onMenu} />
      <h1 title=${name}>${name}</h1>
      <span class="doing" role="status">${doing ?? ""}</span>
      <span class="space"></span>
      <div class="switch only-wide" role="radiogroup" aria-label="View">${[["chat", "Chat"], ["notebook", "Notebook"]].map(([value, words]) => html`
        <button type="button" role="radio" aria-checked=${view === value} onClick=${() => change(value)}>${words}</button>`)}</div>
      <${Menu} label="Model" icon="down" text=${html`<span class="model-name">${(session.model ?? "no model").split("/").at(-1)}</span>`} items=${[
        ...models.map((it) => ({ text: `${it.name === session.model ? "✓ " : ""}${it.name}`, disabled: it.available === false, act: () => attempt(() => live.to.command({ command: "set_model", model: it.name })) })),
        { text: "Another model…", act: () => { const model = prompt("Model, as provider/name"); if (model) attempt(() => live.to.command({ command: "set_model", model })); } }]} />
      <${Tool} icon="undo" label="Undo the last turn" disabled=${isBusy || !session.cells.length} onClick=${() => undo(live, { turns: 1 })} />
      <${Menu} label="More" icon="more" items=${[
        { text: view === "chat" ? "Notebook view" : "Chat view", act: () => change(view === "chat" ? "notebook" : "chat") },
        { text: "Suggest questions", disabled: isBusy || !session.model, act: () => attempt(() => live.to.command({ command: "suggest" })) },
        { text: "Go back to…", act: () => setPanel("history") },
        { text: "Fork this session", act: () => fork(id) },
        { text: "Restart kernel", act: () => confirm("Start the kernel anew? All its variables are lost.") && attempt(() => live.to.command({ command: "restart_kernel" })) },
        ...[["ipynb", "Save notebook (.ipynb)"], ["html", "Save page (.html)"], ["md", "Save Markdown (.md)"], ["py", "Save script (.py)"]].map(([ending, text]) => ({ text, href: live.to.notebook(ending) }))]} />
      <${Tool} icon="panel" label="Variables, files, kernels, cost" aria-pressed=${Boolean(panel)} onClick=${() => setPanel(panel ? "" : "variables")} />
    </header>
    ${live.state === "lost" && html`<p class="lost" role="alert">The connection is lost. Trying again…</p>`}
    <div class="scroller" ref=${scroller} onScroll=${scrolled}><div class="column">
      ${live.state === "opening" && html`<p class="notice" aria-busy="true">Opening…</p>`}
      <${Conversation} live=${live} view=${view} onEdit=${edit} onFork=${(cell) => fork(id, cell)} />
      ${live.state === "live" && !session.model && html`<${NoModel} />`}
    </div></div>
    ${!isAtEnd.current && html`<button type="button" class="to-end" aria-label="Scroll to the newest" onClick=${() => { isAtEnd.current = true; draw(); }}><${Icon} name="down" /></button>`}
    <div class="foot"><${Composer} draft=${draft} mode=${mode} setMode=${setMode} isBusy=${isBusy} placeholder=${isBusy ? "Wait for the answer, or stop it" : "Ask a question"} onSend=${send} onStop=${stop} onFiles=${take} complete=${live.to.complete} /></div>
    ${panel && html`<${Panel} live=${live} tab=${panel} setTab=${setPanel} onClose=${() => setPanel("")} onMention=${mention} />`}
    <${UndoAsks} live=${live} draw=${draw} />
  </main>`;
}

function useRoute() {
  const read = () => decodeURIComponent(/^#\/s\/(.+)$/.exec(location.hash)?.[1] ?? "");
  const [id, setId] = useState(read());
  useEffect(() => {
    const changed = () => setId(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return id;
}

function App() {
  const id = useRoute();
  const [isOut, setOut] = useState(null);
  const [round, setRound] = useState(0);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [isOver, setOver] = useState(false);
  const [gone, setGone] = useState(null);
  const [held, setHeld] = useState([]);
  const [theme, setTheme] = useState(kept("theme", "system"));
  const list = useSessions(`${id}${round}${isOut}`);
  const dropped = useRef(null);
  useEffect(() => { auth.lost = () => setOut("This page is not logged in."); }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    keep("theme", theme);
  }, [theme]);
  useEffect(() => { setGone(null); setMenuOpen(false); if (!id) document.title = "Sponde"; document.getElementById("main")?.focus({ preventScroll: true }); }, [id]);

  const hold = Object.assign((files) => setHeld(files), { add: (files) => setHeld((now) => [...now, ...files]) });
  useEffect(() => {
    const has = (event) => event.dataTransfer?.types.includes("Files");
    const over = (event) => { if (has(event)) { event.preventDefault(); setOver(true); } };
    const leave = (event) => { if (!event.relatedTarget) setOver(false); };
    const drop = (event) => {
      if (!has(event)) return;
      event.preventDefault();
      setOver(false);
      const files = [...event.dataTransfer.files];
      if (dropped.current) dropped.current(files);
      else hold.add(files);
    };
    for (const [name, act] of [["dragover", over], ["dragleave", leave], ["drop", drop]]) addEventListener(name, act);
    return () => { for (const [name, act] of [["dragover", over], ["dragleave", leave], ["drop", drop]]) removeEventListener(name, act); };
  }, []);
  if (!id || gone) dropped.current = null;

  if (isOut !== null) return html`<${Login} message=${isOut} onDone=${() => { setOut(null); setRound(round + 1); }} />`;
  return html`<div class=${`app ${isMenuOpen ? "menu-open" : ""}`}>
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector(".composer textarea")?.focus(); }}>Skip to the conversation</a>
    <${Sidebar} list=${list} current=${id} theme=${theme} setTheme=${setTheme} onPick=${() => setMenuOpen(false)} onEnded=${(ended) => { setRound(round + 1); if (ended === id) open(null); }} />
    <div class="shade" onClick=${() => setMenuOpen(false)}></div>
    ${!id && html`<div class="home-frame"><${Tool} icon="menu" label="Sessions" class="only-narrow" onClick=${() => setMenuOpen(true)} /><${Home} dropped=${held} onDropped=${hold} isFirst=${list.stored.length + list.live.length === 0} /></div>`}
    ${id && gone && html`<main class="home" id="main"><div class="home-in"><h1>This session is not running</h1><p class="lead">${gone.message}</p>
      <div class="buttons"><button type="button" class="primary" onClick=${() => { setGone(null); resume(id); }}>Go on with it</button><a class="button" href="#/">New session</a></div></div></main>`}
    ${id && !gone && html`<${Session} key=${id} id=${id} facts=${list.live.find((it) => it.id === id)} dropped=${dropped} onMenu=${() => setMenuOpen(!isMenuOpen)} onGone=${setGone} />`}
    ${isOver && html`<div class="dropping" aria-hidden="true"><p>Drop to add to the workspace</p></div>`}
    <${Toasts} />
  </div>`;
}

addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    document.querySelector(".composer textarea")?.focus();
  }
});

try {
  await login();
} catch (error) {
  auth.failed = error.message;
}
render(html`<${App} />`, document.body);
