// What all parts of the page are made with.

import { Component, h, render } from "./vendor/preact.js";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export { Component, h, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };
export const html = htm.bind(h);

/** A component that is drawn again only if a property changed. */
export function memo(inner) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]);
      return [...names].some((name) => next[name] !== this.props[name]);
    }
    render(props) { return h(inner, props); }
  };
}

const PATHS = {
  plus: "M12 5v14M5 12h14", menu: "M4 7h16M4 12h16M4 17h16", close: "M6 6l12 12M18 6L6 18", check: "M5 12l5 5L19 7",
  run: "M8 5l11 7-11 7z", stop: "M7 7h10v10H7z", send: "M12 19V5M6 11l6-6 6 6", edit: "M4 20h4L19 9l-4-4L4 16z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1", save: "M12 4v11M7 11l5 5 5-5M5 20h14", undo: "M9 6L4 11l5 5M4 11h10.5a4.5 4.5 0 0 1 0 9H11",
  clock: "M12 3a9 9 0 1 0 0 18a9 9 0 0 0 0-18M12 7v5l3 2", panel: "M4 5h16v14H4zM15 5v14", file: "M6 3h8l4 4v14H6zM14 3v4h4",
  folder: "M3 6h6l2 2h10v11H3z", table: "M4 5h16v14H4zM4 10h16M4 15h16M10 5v14", zoom: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  up: "M12 20V9M7 13l5-5 5 5M5 4h14", trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13", down: "M6 9l6 6 6-6", more: "M6 12h.01M12 12h.01M18 12h.01",
  fork: "M6 3v12M6 15a3 3 0 1 0 0 6a3 3 0 0 0 0-6M18 3a3 3 0 1 0 0 6a3 3 0 0 0 0-6M18 9c0 5-6 4-10.5 7",
  restart: "M20 12a8 8 0 1 1-2.5-5.8M20 3v4h-4", sun: "M12 8a4 4 0 1 0 0 8a4 4 0 0 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1 1M18 18l1 1M5 19l1-1M18 6l1-1",
};

export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

/** HTML that the server made safe. Its styles, harmless by then, are `data-style`: the page's policy allows no others. */
export const Safe = memo(({ text, ...rest }) => {
  const box = useRef();
  useLayoutEffect(() => {
    const made = new DOMParser().parseFromString(text, "text/html");
    box.current.replaceChildren(...made.body.childNodes);
    for (const link of box.current.querySelectorAll("a[href]")) Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
    for (const it of box.current.querySelectorAll("[data-style]")) {
      it.style.cssText = it.dataset.style;
      delete it.dataset.style;
    }
  }, [text]);
  return html`<div ref=${box} ...${rest}></div>`;
});

/** A button that shows a sign; its words are for those who cannot see it, and its tooltip. */
export const Tool = ({ icon, label, children, class: more = "", ...rest }) => html`
  <button type="button" class=${`tool ${more}`} aria-label=${label} title=${label} ...${rest}><${Icon} name=${icon} />${children}</button>`;

/** A dialog that keeps the focus inside and gives it back. */
export function Dialog({ title, wide, onClose, children }) {
  const element = useRef();
  useEffect(() => {
    const before = document.activeElement;
    element.current.showModal();
    return () => before?.focus?.();
  }, []);
  const outside = (event) => { if (event.target === element.current) onClose(); };
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-label=${title} onClose=${onClose} onClick=${outside}>
    <header><h2 tabindex="-1" autofocus>${title}</h2><${Tool} icon="close" label="Close" onClick=${onClose} /></header>
    <div class="dialog-body">${children}</div>
  </dialog>`;
}

/** A button with a menu below it. */
export function Menu({ label, icon, items, text }) {
  const [open, setOpen] = useState(false);
  const box = useRef();
  useEffect(() => {
    if (!open) return;
    box.current.querySelector("[role=menuitem]")?.focus();
    const away = (event) => { if (!box.current?.contains(event.target)) setOpen(false); };
    addEventListener("pointerdown", away);
    return () => removeEventListener("pointerdown", away);
  }, [open]);
  // Whatever it opens gives the focus back to what had it.
  const shut = () => { box.current.firstChild.focus(); setOpen(false); };
  const keys = (event) => {
    const all = [...box.current.querySelectorAll("[role=menuitem]")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (open && step) all.at((all.indexOf(document.activeElement) + step) % all.length).focus();
    else if (open && event.key === "Escape") shut();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="menu" ref=${box} onKeyDown=${keys}>
    <button type="button" class="tool" aria-haspopup="menu" aria-expanded=${open} aria-label=${label} title=${label} onClick=${() => setOpen(!open)}>
      <${Icon} name=${icon} />${text}</button>
    ${open && html`<div role="menu" aria-label=${label}>${items.filter(Boolean).map((item) => item.href
      ? html`<a role="menuitem" href=${item.href} download onClick=${shut}>${item.text}</a>`
      : html`<button type="button" role="menuitem" disabled=${item.disabled} onClick=${() => { shut(); item.act(); }}>${item.text}</button>`)}</div>`}
  </div>`;
}

// ---- questions before something is done

let asked = null;
let askedChanged = () => {};
/** Asks a person: `{title, text, yes}`, and with `field` for a word. The answer is null if it is to be left. */
export const question = (what) => new Promise((resolve) => {
  asked = { ...what, resolve };
  askedChanged();
});
export function Question() {
  const [, draw] = useState(0);
  const form = useRef();
  useEffect(() => { askedChanged = () => draw((n) => n + 1); }, []);
  useEffect(() => form.current?.querySelector("input, .primary").focus(), [asked]);
  if (!asked) return null;
  const { title, text, yes, field, resolve } = asked;
  const end = (answer) => { asked = null; askedChanged(); resolve(answer); };
  const send = (event) => {
    event.preventDefault();
    end(field ? event.target.word.value.trim() || null : true);
  };
  return html`<${Dialog} title=${title} onClose=${() => end(null)}><form class="question" ref=${form} onSubmit=${send}>
    ${text && html`<p>${text}</p>`}${field && html`<label>${field}<input name="word" autocomplete="off" required /></label>`}
    <div class="buttons"><span class="space"></span><button type="button" onClick=${() => end(null)}>Cancel</button>
    <button type="submit" class="primary">${yes}</button></div></form><//>`;
}

export const kept = (name, fallback) => localStorage.getItem(`sponde.${name}`) ?? fallback;
export const keep = (name, value) => localStorage.setItem(`sponde.${name}`, value);
export const isNarrow = () => matchMedia("(max-width: 60rem)").matches;

export const thousands = (number) => Number(number).toLocaleString("en");
export const size = (bytes) => {
  if (bytes == null) return "";
  const unit = bytes < 1024 ? 0 : Math.min(4, Math.floor(Math.log(bytes) / Math.log(1024)));
  return `${unit ? (bytes / 1024 ** unit).toPrecision(3) : bytes} ${["B", "KB", "MB", "GB", "TB"][unit]}`;
};
export const plural = (count, word) => `${thousands(count)} ${word}${count === 1 ? "" : "s"}`;

export function when(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  if (!(seconds >= 0)) return "";
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (seconds >= length && !(unit === "day" && seconds > 30 * 86400)) {
      return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.floor(seconds / length), unit);
    }
  }
  return seconds < 60 ? "now" : new Date(iso).toLocaleDateString();
}

export function saveAs(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ---- short messages at the edge of the page

let told = [];
let changed = () => {};
export function toast(message, kind = "info") {
  const one = { message, kind, id: Math.random() };
  told = [...told.slice(-3), one];
  changed();
  setTimeout(() => { told = told.filter((it) => it !== one); changed(); }, kind === "bad" ? 9000 : 4000);
}
export function Toasts() {
  const [, draw] = useState(0);
  useEffect(() => { changed = () => draw((n) => n + 1); }, []);
  return html`<div class="toasts" role="status">${told.map((it) => html`<p key=${it.id} class=${it.kind}>${it.message}</p>`)}</div>`;
}

/** Runs what can fail, and says so. */
export async function attempt(what) {
  try {
    return await what();
  } catch (error) {
    toast(error.hint ? `${error.message} (${error.hint})` : error.message, "bad");
  }
}
