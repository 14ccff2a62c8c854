// The page: login, and which session is shown.

import { auth, post } from "./api.js";
import { Session } from "./session.js";
import { Home, Sidebar, useSessions } from "./sessions.js";
import { Question, Toasts, Tool, html, keep, kept, render, useEffect, useRef, useState } from "./ui.js";

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

/** Whether files are held over the page; `take` gets those that are dropped. */
function useDrop(take) {
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const has = (event) => event.dataTransfer?.types.includes("Files");
    const on = {
      dragover: (event) => { if (has(event)) { event.preventDefault(); setOver(true); } },
      dragleave: (event) => { if (!event.relatedTarget) setOver(false); },
      drop: (event) => {
        if (!has(event)) return;
        event.preventDefault();
        setOver(false);
        take([...event.dataTransfer.files]);
      },
    };
    for (const [name, act] of Object.entries(on)) addEventListener(name, act);
    return () => { for (const [name, act] of Object.entries(on)) removeEventListener(name, act); };
  }, []);
  return isOver;
}

function App() {
  const id = useRoute();
  const [isOut, setOut] = useState(auth.failed);
  const [round, setRound] = useState(0);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [held, setHeld] = useState([]);
  const [theme, setTheme] = useState(kept("theme", "system"));
  const list = useSessions(`${id}${round}${isOut}`);
  const dropped = useRef(null);
  const hold = Object.assign((files) => setHeld(files), { add: (files) => setHeld((now) => [...now, ...files]) });
  const isOver = useDrop((files) => (dropped.current ?? hold.add)(files));
  useEffect(() => { auth.lost = () => setOut((was) => was ?? "This page is not logged in."); }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    keep("theme", theme);
  }, [theme]);
  useEffect(() => {
    setMenuOpen(false);
    if (!id) document.title = "Sponde";
    document.getElementById("main")?.focus({ preventScroll: true });
  }, [id]);
  if (!id) dropped.current = null;

  if (isOut !== null) return html`<${Login} message=${isOut} onDone=${() => { setOut(null); setRound(round + 1); }} />`;
  const skip = (event) => { event.preventDefault(); document.querySelector(".composer textarea")?.focus(); };
  return html`<div class=${`app ${isMenuOpen ? "menu-open" : ""}`}>
    <a class="skip" href="#main" onClick=${skip}>Skip to the conversation</a>
    <${Sidebar} list=${list} current=${id} theme=${theme} setTheme=${setTheme} onPick=${() => setMenuOpen(false)} onEnded=${() => setRound(round + 1)} />
    <div class="shade" onClick=${() => setMenuOpen(false)}></div>
    ${id
      ? html`<${Session} key=${id} id=${id} facts=${list.live.find((it) => it.id === id)} dropped=${dropped} onMenu=${() => setMenuOpen(!isMenuOpen)} />`
      : html`<div class="home-frame"><${Tool} icon="menu" label="Sessions" class="only-narrow" onClick=${() => setMenuOpen(true)} /><${Home} dropped=${held} onDropped=${hold} /></div>`}
    ${isOver && html`<div class="dropping" aria-hidden="true"><p>Drop to add to the workspace</p></div>`}
    <${Question} />
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
