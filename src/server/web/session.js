// One session: its bar, the conversation, where a person writes, and what stands beside it.

import { OWN, read, written } from "./api.js";
import { Conversation } from "./cells.js";
import { Composer } from "./composer.js";
import { Live } from "./live.js";
import { Panel, UndoAsks, restart, undo } from "./panels.js";
import { NoModel, fork } from "./sessions.js";
import { Icon, Menu, Tool, attempt, html, isNarrow, keep, kept, question, toast, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./ui.js";

const DOING = {
  sampling: "The model is writing", executing: "Code is running", deciding: "Waiting for your answer",
  compacting: "Compacting", paused: "Waiting for your answer",
};
const SAVED = [["ipynb", "Save notebook (.ipynb)"], ["html", "Save page (.html)"], ["md", "Save Markdown (.md)"], ["py", "Save script (.py)"]];

/** Keeps the newest in view for whoever is there, and moves nobody else. */
function useEnd(live, draw) {
  const scroller = useRef();
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const follow = () => { if (isAtEnd.current && scroller.current) scroller.current.scrollTop = scroller.current.scrollHeight; };
  useLayoutEffect(follow);
  useEffect(() => {
    const watch = new ResizeObserver(follow);
    watch.observe(scroller.current.firstChild);
    return () => watch.disconnect();
  }, [live]);
  const scrolled = ({ currentTarget: box }) => {
    const was = isAtEnd.current;
    // Only a person scrolls back: what grows below does not count.
    if (box.scrollHeight - box.scrollTop - box.clientHeight < 80) isAtEnd.current = true;
    else if (box.scrollTop < lastTop.current - 2) isAtEnd.current = false;
    lastTop.current = box.scrollTop;
    if (was !== isAtEnd.current) draw();
  };
  const toEnd = () => { isAtEnd.current = true; draw(); };
  return { scroller, isAtEnd, scrolled, toEnd };
}

function ModelMenu({ live, models }) {
  const { session } = live;
  const choose = (model) => attempt(() => live.to.command({ command: "set_model", model }));
  const other = async () => {
    const model = await question({ title: "Another model", field: "As provider/name", yes: "Choose" });
    if (model) choose(model);
  };
  const name = (session.model ?? "no model").split("/").at(-1);
  return html`<${Menu} label="Model" icon="down" text=${html`<span class="model-name">${name}</span>`} items=${[
    ...models.map((it) => ({ text: `${it.name === session.model ? "✓ " : ""}${it.name}`, act: () => choose(it.name) })),
    { text: "Another model…", act: other }]} />`;
}

function Bar({ live, name, models, view, setView, panel, setPanel, onMenu }) {
  const { session } = live;
  const isOver = live.state === "ended";
  const isBusy = isOver || session.turn !== "idle";
  const views = [["chat", "Chat"], ["notebook", "Notebook"]];
  const other = view === "chat" ? "notebook" : "chat";
  return html`<header class="bar">
    <${Tool} icon="menu" label="Sessions" class="only-narrow" onClick=${onMenu} />
    <h1 title=${name}>${name}</h1>
    <span class="doing" role="status">${isOver ? "" : DOING[session.turn] ?? ""}</span>
    <span class="space"></span>
    <div class="switch only-wide" role="radiogroup" aria-label="View">${views.map(([value, words]) => html`
      <button type="button" role="radio" aria-checked=${view === value} onClick=${() => setView(value)}>${words}</button>`)}</div>
    ${!isOver && html`<${ModelMenu} live=${live} models=${models} />
      <${Tool} icon="undo" label="Undo the last turn" disabled=${isBusy || !session.cells.length} onClick=${() => undo(live, { turns: 1 })} />
      <${Menu} label="More" icon="more" items=${[
        { text: view === "chat" ? "Notebook view" : "Chat view", act: () => setView(other) },
        { text: "Suggest questions", disabled: isBusy || !session.model, act: () => attempt(() => live.to.command({ command: "suggest" })) },
        { text: "Go back to…", act: () => setPanel("history") },
        { text: "Fork this session", act: () => fork(live.id) },
        { text: "Restart kernel", act: () => restart(live) },
        ...SAVED.map(([ending, text]) => ({ text, href: live.to.notebook(ending) }))]} />
      <${Tool} icon="panel" label="Variables, files, kernels, cost" aria-pressed=${Boolean(panel)} onClick=${() => setPanel(panel ? "" : "variables")} />`}
  </header>`;
}

/** Instead of a field to write in: nothing brings a session back but a person. */
function Ended({ live }) {
  const { by, message } = live.why;
  const words = by ? `${by === OWN ? "You" : by} ended it.` : `${message[0].toUpperCase()}${message.slice(1)}.`;
  return html`<section class="card ended" aria-label="This session is not running"><p><b>This session is not running.</b> ${words} Its notebook and files are kept.</p>
    <div class="buttons"><button type="button" class="primary" onClick=${() => live.resume()}>Resume</button><a class="button" href="#/">New session</a></div></section>`;
}

export function Session({ id, facts, onMenu, dropped }) {
  const [, setRound] = useState(0);
  const draw = () => setRound((n) => n + 1);
  const [view, setViewState] = useState(kept("view", "chat"));
  const [mode, setMode] = useState("ask");
  const [draft, setDraft] = useState(null);
  const [models, setModels] = useState([]);
  const [panel, setPanelState] = useState(isNarrow() ? "" : kept("panel", ""));
  const setPanel = (name) => { setPanelState(name); keep("panel", name); };
  const live = useMemo(() => new Live(id, draw), [id]);
  useEffect(() => () => live.close(), [live]);
  useEffect(() => { if (!isNarrow()) document.querySelector(".foot textarea")?.focus(); }, [live]);
  useEffect(() => { read("models").then(setModels, () => {}); }, []);
  const { scroller, isAtEnd, scrolled, toEnd } = useEnd(live, draw);
  const { session } = live;
  const isBusy = session.turn !== "idle";
  const isOver = live.state === "ended";

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
  dropped.current = isOver ? null : take;
  const send = async (text, what) => {
    isAtEnd.current = true;
    await live.to.command(written(text, what));
  };
  const stop = () => attempt(() => live.to.command({ command: "interrupt" }));
  const setView = (next) => { setViewState(next); keep("view", next); setMode(next === "notebook" ? "code" : "ask"); };
  const edit = (source) => { setMode("code"); setDraft({ text: source }); };
  const name = facts?.title || session.cells.find((cell) => cell.kind === "user")?.source.split("\n")[0] || "New session";
  useEffect(() => { document.title = `${session.pending.length ? "● " : ""}${name} · Sponde`; }, [name, session.pending.length]);

  return html`<main class=${`session ${panel && !isOver ? "with-panel" : ""}`} id="main" tabindex="-1">
    <${Bar} live=${live} name=${name} models=${models} view=${view} setView=${setView} panel=${panel} setPanel=${setPanel} onMenu=${onMenu} />
    ${live.state === "lost" && html`<p class="lost" role="alert">Connection lost. Reconnecting…</p>`}
    <div class="scroller" ref=${scroller} onScroll=${scrolled}><div class="column">
      ${live.state === "opening" && html`<p class="notice" aria-busy="true">Opening…</p>`}
      <${Conversation} live=${live} view=${view} onEdit=${edit} onFork=${(cell) => fork(id, cell)} />
      ${live.state === "live" && !session.model && html`<${NoModel} />`}
    </div></div>
    ${!isAtEnd.current && html`<button type="button" class="to-end" aria-label="Scroll to the newest" onClick=${toEnd}><${Icon} name="down" /></button>`}
    <div class="foot">${isOver ? html`<${Ended} live=${live} />` : html`<${Composer} draft=${draft} mode=${mode} setMode=${setMode} isBusy=${isBusy}
      placeholder=${isBusy ? "Wait for the answer, or stop it" : "Ask a question"} onSend=${send} onStop=${stop} onFiles=${take} complete=${live.to.complete} />`}</div>
    ${panel && !isOver && html`<${Panel} live=${live} tab=${panel} sandbox=${facts?.sandbox} setTab=${setPanel} onClose=${() => setPanel("")} onMention=${mention} />`}
    <${UndoAsks} live=${live} draw=${draw} />
  </main>`;
}
